/* Tables that sort and filter: order and words are kept in the address. Without a script they are plain tables. */
(function () {
  "use strict";
  const ask = window.ask;

  const text = (row, at) => (row.cells[at] ? row.cells[at].dataset.value || row.cells[at].textContent.trim() : "");
  /** A cell's number: groups of digits, units and signs as people write them; NaN where there is none. */
  function number(cell) {
    const found = /^[+\-−]?[\d\u202f,]*\.?\d+(?:e[+-]?\d+)?/i.exec(cell.replace(/^\$/, ""));
    return found ? parseFloat(found[0].replace(/[\u202f,]/g, "").replace("−", "-")) : NaN;
  }

  function sorter(table, name) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const original = [...body.rows];
    function sort(at, falling) {
      heads.forEach((head, k) => head.setAttribute("aria-sort", k !== at ? "none" : falling ? "descending" : "ascending"));
      const numeric = heads[at].classList.contains("num");
      const keyed = original.map((row, k) => ({ row, k, key: numeric ? number(text(row, at)) : text(row, at).toLowerCase() }));
      keyed.sort((a, b) => {
        if (numeric && (Number.isNaN(a.key) || Number.isNaN(b.key))) return Number.isNaN(a.key) - Number.isNaN(b.key) || a.k - b.k;
        const order = a.key < b.key ? -1 : a.key > b.key ? 1 : 0;
        return (falling ? -order : order) || a.k - b.k;
      });
      body.append(...keyed.map((one) => one.row));
    }
    heads.forEach((head, at) => {
      const button = ask.el("button", { type: "button", class: "sort", onclick: () => {
        const falling = head.getAttribute("aria-sort") === "ascending" || (head.getAttribute("aria-sort") !== "descending" && head.classList.contains("num"));
        sort(at, falling);
        ask.state.set({ [name + ".sort"]: (falling ? "-" : "") + at });
      } });
      if (head.querySelector("a")) button.setAttribute("aria-label", "Sort by " + head.textContent.trim());
      else button.append(...head.childNodes);
      head.append(button);
      head.setAttribute("aria-sort", "none");
    });
    const wanted = /^(-?)(\d+)$/.exec(ask.state.get(name + ".sort", ""));
    if (wanted && heads[Number(wanted[2])]) sort(Number(wanted[2]), wanted[1] === "-");
  }

  function filterer(table, name) {
    const rows = [...table.tBodies[0].rows];
    const said = ask.el("span", { class: "dim", role: "status" });
    const field = ask.el("input", { type: "search", placeholder: "Filter these rows", "aria-label": "Filter the rows of this table", value: ask.state.get(name + ".find", "") });
    function filter() {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const all = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => all.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      said.textContent = words.length ? ask.format.count(shown) + " of " + ask.format.count(rows.length) + " rows" : "";
      ask.state.set({ [name + ".find"]: field.value });
    }
    field.addEventListener("input", filter);
    table.before(ask.el("div", { class: "filter" }, field, said));
    if (field.value) filter();
  }

  ask.tables = () => document.querySelectorAll("table.sortable").forEach((table, at) => {
    if (!table.tHead || !table.tBodies.length || table.querySelector(".sort")) return;
    const name = table.id || "table" + at;
    if (table.tBodies[0].rows.length < 2) return;
    sorter(table, name);
    if (table.matches(".filterable") || table.tBodies[0].rows.length > 12) filterer(table, name);
  });
  ask.tables();
})();
