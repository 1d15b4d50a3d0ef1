"use strict";
const form = document.querySelector("form");
const answers = [...form.querySelectorAll("[data-key]")];
const done = form.elements.done;
const kept = (answer) => "answer " + answer.dataset.key;
const inputs = (answer) => [...answer.querySelectorAll("input")];

function keep(key, value) {
  try { localStorage.setItem(key, value); } catch { /* a browser that keeps nothing: saving still works */ }
}

function recall(key) {
  try { return localStorage.getItem(key) ?? ""; } catch { return ""; }
}

function boxes(answer) {
  return [...answer.querySelectorAll("tr")].map((row) => inputs(row).map((box) => box.value.trim()));
}

function touched(answer) {
  if (answer.matches("textarea")) return answer.value.trim() !== "";
  return inputs(answer).some((box) => !box.readOnly && box.value.trim());
}

function count() {
  done.value = `${answers.filter(touched).length} of ${answers.length} answered`;
}

/* What is not placed yet, and what stands in two boxes. */
function look(answer) {
  const times = new Map(JSON.parse(answer.dataset.choices).map((choice) => [choice, 0]));
  for (const box of inputs(answer)) times.set(box.value.trim(), (times.get(box.value.trim()) ?? -Infinity) + 1);
  for (const box of inputs(answer)) {
    const value = box.value.trim();
    box.classList.toggle("twice", value !== "" && !box.readOnly && times.get(value) !== 1);
  }
  const left = [...times].filter(([, number]) => number === 0).map(([choice]) => choice);
  answer.querySelector(".left").textContent = left.length ? `left: ${left.join(" ")}` : "all placed";
}

function remember(answer) {
  if (answer.matches("textarea")) keep(kept(answer), answer.value);
  else { keep(kept(answer), JSON.stringify(boxes(answer))); look(answer); }
  count();
}

function restore(answer) {
  const stored = recall(kept(answer));
  if (answer.matches("textarea")) { answer.value = stored; return; }
  try {
    const values = JSON.parse(stored || "[]").flat();
    inputs(answer).forEach((box, place) => { if (!box.readOnly) box.value = values[place] ?? ""; });
  } catch { /* of something else under this name */ }
  look(answer);
}

for (const answer of answers) {
  restore(answer);
  answer.addEventListener("input", () => remember(answer));
}
form.elements.name.value = recall("name");
form.elements.name.addEventListener("input", () => keep("name", form.elements.name.value));

form.addEventListener("keydown", (event) => { // Enter goes on to the next box; the button saves
  const box = event.target.closest(".boxes input");
  if (event.key !== "Enter" || !box) return;
  event.preventDefault();
  const open = [...form.querySelectorAll(".boxes input:not([readonly])")];
  open[open.indexOf(box) + 1]?.focus();
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const name = form.elements.name.value.trim();
  const given = answers.map((answer) => answer.matches("textarea")
    ? { key: answer.dataset.key, text: answer.value }
    : { key: answer.dataset.key, boxes: boxes(answer), touched: touched(answer) });
  const saved = JSON.stringify({ name, ...JSON.parse(form.dataset.about), answers: given }, null, 1);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([saved], { type: "application/json" }));
  link.download = `answers-${name}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
});
count();
