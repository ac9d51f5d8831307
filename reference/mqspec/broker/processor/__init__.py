"""What a broker does with each request, an area of requests a module; `table` has them all."""
