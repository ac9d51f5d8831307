----------------------------- MODULE MC_SpanToNext -----------------------------
(* MC_Span with a span that reaches to the next message to pull.                *)
EXTENDS MC_Span
================================================================================
