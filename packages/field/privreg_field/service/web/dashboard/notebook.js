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
    const which = document.createElement("select");
    which.setAttribute("aria-label", "Analysis");
    which.append(...names.map((name) => new Option(name, name)));
    which.addEventListener("change", () => {
      model.set("chosen", which.value);
      model.save_changes();
    });
    if (names.length > 1) el.append(which);
    el.append(said, root);
    let view;
    const begin = () => {
      which.value = model.get("chosen");
      view?.destroy();
      root.replaceChildren();
      view = new View(uPlot, root);
      show("progress", "results");
    };
    const show = (...kinds) => {
      said.textContent = model.get("said");
      if (model.get("of") !== model.get("chosen")) return; // of another analysis, which was chosen before
      for (const kind of kinds) if (Object.keys(model.get(kind)).length) view[kind](model.get(kind));
    };
    for (const kind of ["progress", "results"]) model.on(`change:${kind}`, () => show(kind));
    model.on("change:said", () => show());
    model.on("change:of", () => show("progress", "results"));
    model.on("change:chosen", begin);
    begin();
    return () => view.destroy();
  },
};
