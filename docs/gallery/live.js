// Live pages are as high as what is in them.

function follow(frame) {
  const body = frame.contentDocument?.body;
  if (body) new ResizeObserver(() => (frame.style.height = `${body.scrollHeight + 2}px`)).observe(body);
}

for (const frame of document.querySelectorAll("iframe.live")) {
  frame.addEventListener("load", () => follow(frame));
  if (frame.contentDocument?.readyState === "complete") follow(frame);
}
