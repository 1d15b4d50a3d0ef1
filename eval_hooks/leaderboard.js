"use strict";

function sortBy(th) {
  const table = th.closest("table"), column = th.cellIndex, text = th.dataset.sort === "text";
  const first = th.dataset.sort === "down" ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = th.getAttribute("aria-sort") === first ? other : first;
  const sign = order === "ascending" ? 1 : -1;
  const value = (row) => row.cells[column].dataset.value ?? "";
  const compare = (one, another) => {
    const a = value(one), b = value(another);
    if (a === "" || b === "") return (a === "") - (b === "");  // what is missing stays last
    return sign * (text ? a.localeCompare(b, undefined, { numeric: true }) : Number(a) - Number(b));
  };
  for (const each of th.parentElement.cells) each.removeAttribute("aria-sort");
  th.setAttribute("aria-sort", order);
  table.tBodies[0].append(...Array.from(table.tBodies[0].rows).sort(compare));
}

function filter() {
  const chosen = (name) => document.querySelector(`select[name="${name}"]`).value;
  let shown = 0;
  for (const board of document.querySelectorAll("section")) {
    board.hidden = !["protocol", "split", "version"].every((name) => {
      const wanted = chosen(name);
      return wanted === "" || JSON.parse(board.dataset[name]).includes(wanted);
    });
    shown += !board.hidden;
  }
  document.querySelector("#nothing").hidden = shown > 0;
  document.body.classList.toggle("best-only", document.querySelector('input[name="best"]').checked);
}

for (const th of document.querySelectorAll("thead th")) {
  th.querySelector("button").addEventListener("click", () => sortBy(th));
}
for (const control of document.querySelectorAll("select, input")) control.addEventListener("change", filter);
filter();
