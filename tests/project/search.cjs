// Asks the search worker of a built site questions: `node search.cjs SITE` reads a JSON list of them from standard input,
// and prints the locations that each finds, best first.
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const site = process.argv[2];
const workers = path.join(site, "assets", "javascripts", "workers");
const script = fs.readdirSync(workers).find((name) => name.endsWith(".js"));
const listeners = [];
const waiting = [];
const scope = {
  console,
  location: { href: "http://site/" },
  addEventListener: (kind, listener) => kind === "message" && listeners.push(listener),
  postMessage: (message) => waiting.shift()(message),
  setTimeout,
  TextEncoder,
  URL,
};
scope.self = scope.globalThis = scope;
vm.runInNewContext(fs.readFileSync(path.join(workers, script), "utf-8"), scope);

function ask(message) {
  return new Promise((resolve) => {
    waiting.push(resolve);
    for (const listener of listeners) listener({ data: message });
  });
}

async function main() {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search", "search_index.json"), "utf-8"));
  await ask({ type: 0, data: { ...index, options: { suggest: false } } });
  const answers = [];
  for (const question of JSON.parse(fs.readFileSync(0, "utf-8"))) {
    const { data } = await ask({ type: 2, data: question });
    answers.push(data.items.slice(0, 5).map(([first]) => first.location));
  }
  console.log(JSON.stringify(answers));
}

main();
