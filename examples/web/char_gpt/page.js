// Trains on random pieces of the text, and generates text by sampling one character at a time from the model.

import { drawn, element, on, open, say } from "./common.js";
import { readArrays } from "./tensorgrad.js";

let isWriting = false;

/** Samples an index from the softmax of logits at a temperature. */
function chosen(logits, temperature) {
  const most = Math.max(...logits);
  const weights = Array.from(logits, (logit) => Math.exp((logit - most) / temperature));
  let left = Math.random() * weights.reduce((sum, weight) => sum + weight, 0);
  const found = weights.findIndex((weight) => (left -= weight) < 0);
  return found < 0 ? logits.indexOf(most) : found;
}

await open(async (training) => {
  const [size, context] = training.inputs.tokens.shape;
  const following = await training.attach("following.tg");
  const text = await readArrays("text.safetensors");
  const tokens = Int32Array.from(text.tokens.data);
  const characters = Array.from(text.characters.data, (code) => String.fromCodePoint(code));

  function batch() {
    const pieces = { tokens: new Int32Array(size * context), following: new Int32Array(size * context) };
    for (let row = 0; row < size; row++) {
      const start = drawn(tokens.length - context);
      pieces.tokens.set(tokens.subarray(start, start + context), row * context);
      pieces.following.set(tokens.subarray(start + 1, start + context + 1), row * context);
    }
    return pieces;
  }

  /** Samples the token after `written`. Attention is causal, so the padding behind the last token has no effect. */
  async function next(written) {
    const seen = written.slice(-context);
    const padded = new Int32Array(context);
    padded.set(seen);
    const logits = await following.call({ tokens: [Array.from(padded)] }).read();
    const start = (seen.length - 1) * characters.length;
    return chosen(logits.subarray(start, start + characters.length), Number(element("heat").value));
  }

  /** Shows a prompt; returns the node for what is written after it. */
  function begin(prompt) {
    const begun = document.createElement("strong");
    begun.textContent = prompt;
    const rest = document.createTextNode("");
    element("text").replaceChildren(begun, rest);
    return rest;
  }

  async function write(prompt) {
    const unknown = [...prompt].filter((character) => !characters.includes(character));
    if (unknown.length) return say(`The training text does not contain ${[...new Set(unknown)].join(" ")}.`);
    if (!prompt) return say("Enter at least one character.");
    const written = [...prompt].map((character) => characters.indexOf(character));
    const rest = begin(prompt);
    isWriting = true;
    element("write").textContent = "Stop";
    say("Writing …");
    try {
      const end = written.length + Number(element("length").value);
      while (isWriting && written.length < end) {
        written.push(await next(written));
        rest.appendData(characters[written.at(-1)]);
        element("text").scrollTop = element("text").scrollHeight;
      }
      say(`Wrote ${written.length - [...prompt].length} characters.`);
    } finally {
      isWriting = false;
      element("write").textContent = "Write";
    }
  }

  on("write", "click", () => (isWriting ? (isWriting = false) : write(element("prompt").value)));
  on("prompt", "keydown", ({ key }) => key === "Enter" && !isWriting && write(element("prompt").value));
  for (const name of ["heat", "length"]) {
    on(name, "input", ({ target }) => (element(`${name}-value`).textContent = target.value));
  }
  const sample = Array.from(text.sample.data, (token) => characters[token]).join("");
  const prompt = element("prompt").value;
  begin(prompt).data = sample.slice(prompt.length);
  say("This text is a sample, which the model wrote before it was published.");
  return { batch, show: () => undefined };
});
