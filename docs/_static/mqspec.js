// What the pages do beyond standing there. Without this script all of them still read whole.
"use strict";

// The words of this script in Chinese. {} is a number or a reason.
const CHINESE = {
  "Paste a line, or a part of one:": "粘贴一行日志，或其中一段：",
  "{} of {} lines": "{} / {} 条",
  "No known line has that.": "没有已知的日志包含这段文字。",
  "First": "首步",
  "All": "全部",
  "First step": "第一步",
  "One step back": "上一步",
  "Next step": "下一步",
  "All steps": "全部步骤",
  "{} of {}": "{} / {}",
  "all": "全部",
  "{} of {} rules": "{} / {} 条规则",
  "This browser cannot run it: {}": "这个浏览器无法运行它：{}",
  "Loading Python ...": "正在加载 Python ……",
};
const inChinese = document.documentElement.lang.startsWith("zh");

function say(words, ...values) {
  return values.reduce((said, value) => said.replace("{}", value), (inChinese && CHINESE[words]) || words);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".log-finder").forEach(findLogLines);
  document.querySelectorAll("svg.sequence").forEach(stepThrough);
  document.querySelectorAll(".matrix-filter").forEach(filterMatrix);
  document.querySelectorAll("form.explorer").forEach(explore);
});

// A box to paste a line into: of the lines below, only those that it may be are shown.
function findLogLines(place) {
  const lines = [...document.querySelectorAll(".log-line")].map((element) => ({
    element,
    pieces: JSON.parse(element.querySelector("script").textContent),
    text: element.querySelector("pre").textContent.toLowerCase(),
  }));
  const label = make("label", say("Paste a line, or a part of one:"));
  const box = make("input");
  box.type = "search";
  box.spellcheck = false;
  const said = make("p");
  said.setAttribute("role", "status");
  label.append(box);
  place.append(label, said);

  function show() {
    const words = box.value.trim();
    let found = lines.filter((line) => isIn(line.pieces, words));
    if (!found.length) {
      found = lines.filter((line) => line.text.includes(words.toLowerCase()));
    }
    lines.forEach((line) => (line.element.hidden = Boolean(words) && !found.includes(line)));
    said.textContent = !words ? "" : found.length ? say("{} of {} lines", found.length, lines.length) : say("No known line has that.");
  }
  box.addEventListener("input", show);
  const asked = new URLSearchParams(location.search).get("line");
  if (asked) {
    box.value = asked;
    show();
  }
}

// Whether a line has all pieces, in their order.
function isIn(pieces, line) {
  let from = 0;
  return pieces.every((piece) => {
    const at = line.indexOf(piece, from);
    from = at + piece.length;
    return at >= 0;
  });
}

// Buttons below a diagram that show its steps one after the other.
function stepThrough(svg) {
  const groups = [...svg.querySelectorAll("g[data-step]")];
  const last = Math.max(...groups.map((group) => Number(group.dataset.step)));
  let shown = last;
  const bar = make("div");
  bar.className = "stepper";
  const said = make("span");
  const buttons = [
    ["First", "First step", () => 1],
    ["◀", "One step back", () => Math.max(1, shown - 1)],
    ["▶", "Next step", () => (shown === last ? 1 : shown + 1)],
    ["All", "All steps", () => last],
  ].map(([text, title, next]) => {
    const button = make("button", say(text));
    button.type = "button";
    button.title = say(title);
    button.setAttribute("aria-label", say(title));
    button.addEventListener("click", () => show(next()));
    return button;
  });

  function show(step) {
    shown = step;
    groups.forEach((group) => {
      const number = Number(group.dataset.step);
      group.style.opacity = number > step ? "0.08" : "";
    });
    said.textContent = say("{} of {}", step, last);
  }
  bar.append(...buttons, said);
  svg.parentElement.after(bar);
  show(last);
}

// Choices above the evidence that leave only some rules in view.
function filterMatrix(place) {
  const rows = [...document.querySelectorAll(".matrix-area tbody tr")];
  const choices = JSON.parse(place.querySelector("script").textContent).map(([name, values]) => {
    const label = make("label", `${name} `);
    const select = make("select");
    ["all", ...values].forEach((value) => select.append(new Option(value === "all" ? say(value) : value, value)));
    select.addEventListener("change", show);
    label.append(select);
    place.append(label);
    return [name, select];
  });
  const said = make("p");
  said.setAttribute("role", "status");
  place.append(said);

  function show() {
    let count = 0;
    rows.forEach((row) => {
      const classes = row.querySelector(".about").classList;
      row.hidden = choices.some(([name, select]) => select.value !== "all" && !classes.contains(`${name}-${select.value.replaceAll(" ", "-")}`));
      count += row.hidden ? 0 : 1;
    });
    document.querySelectorAll(".matrix-area").forEach((area) => {
      const any = [...area.querySelectorAll("tbody tr")].some((row) => !row.hidden);
      area.hidden = !any;
    });
    said.textContent = count === rows.length ? "" : say("{} of {} rules", count, rows.length);
  }
}

function make(tag, text = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}

// A form that Python answers: Brython, which runs the core's own modules, is loaded at the first touch.
function explore(form) {
  const said = form.querySelector("[role=status]");
  const shown = form.nextElementSibling;
  const fields = () => Object.fromEntries(new FormData(form));
  let answered = null;
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.addEventListener("change", show);

  async function show() {
    try {
      answered ??= load();
      const answer = await answered;
      shown.innerHTML = answer(JSON.stringify(fields()));
      said.textContent = "";
    } catch (error) {
      said.textContent = say("This browser cannot run it: {}", error.message ?? error);
    }
  }

  async function load() {
    said.textContent = say("Loading Python ...");
    const base = document.querySelector("script[src*='mqspec.js']").src.replace(/mqspec\.js.*/, "");
    for (const name of ["brython.js", "brython_stdlib.js", form.dataset.sources]) {
      await new Promise((resolve, reject) => {
        const script = make("script");
        script.src = base + name;
        script.onload = resolve;
        script.onerror = () => reject(`no ${name}`);
        document.head.append(script);
      });
    }
    return new Promise((resolve) => {
      window.mqspecReady = () => resolve(window.mqspecAnswered);
      window.__BRYTHON__.runPythonSource("import mqdocs.in_page");
    });
  }
}
