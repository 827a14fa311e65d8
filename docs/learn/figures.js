// Draws the figures of the page that is open, each by the module with its name.

for (const root of document.querySelectorAll("[data-figure]")) {
  const data = JSON.parse(root.querySelector("script").textContent);
  import(`./${root.dataset.figure}.js`).then((module) => {
    module.draw(root, data);
    root.dataset.ready = "";
  });
}
