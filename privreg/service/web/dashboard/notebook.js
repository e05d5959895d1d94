// The same view in a notebook. A module there has no address to import from, so its sources come as text: SOURCES.
const address = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));

async function imported() {
  const curves = address(SOURCES.curves);
  const made = [address(SOURCES.uplot), address(SOURCES.view.replace("./curves.js", curves))];
  try {
    return await Promise.all(made.map((one) => import(one)));
  } finally {
    [curves, ...made].forEach((one) => URL.revokeObjectURL(one));
  }
}

export default {
  async render({ model, el }) {
    const [{ default: uPlot }, { View }] = await imported();
    const said = document.createElement("p");
    said.setAttribute("role", "status");
    const root = document.createElement("div");
    el.classList.add("pr-live");
    const names = model.get("names") ?? [];
    if (names.length > 1) {
      const which = document.createElement("select");
      which.setAttribute("aria-label", "Analysis");
      which.append(...names.map((name) => new Option(name, name)));
      which.value = model.get("chosen");
      which.addEventListener("change", () => {
        view.destroy();
        root.replaceChildren();
        view = new View(uPlot, root);
        model.set("chosen", which.value);
        model.save_changes();
      });
      el.append(which);
    }
    el.append(said, root);
    let view = new View(uPlot, root);
    const shown = {
      progress: (value) => Object.keys(value).length && view.progress(value),
      results: (value) => Object.keys(value).length && view.results(value),
      said: (value) => {
        said.textContent = value;
      },
    };
    for (const [name, show] of Object.entries(shown)) {
      const changed = () => show(model.get(name));
      model.on(`change:${name}`, changed);
      changed();
    }
    return () => view.destroy();
  },
};
