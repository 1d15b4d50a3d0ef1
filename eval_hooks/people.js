"use strict";
const form = document.querySelector("form");
const boxes = [...form.querySelectorAll("textarea")];
const done = form.elements.done;
const kept = (key) => "answer " + key;

function keep(key, value) {
  try { localStorage.setItem(key, value); } catch { /* a browser that keeps nothing: saving still works */ }
}

function recall(key) {
  try { return localStorage.getItem(key) ?? ""; } catch { return ""; }
}

function count() {
  const answered = boxes.filter((box) => box.value.trim()).length;
  done.value = `${answered} of ${boxes.length} answered`;
}

for (const box of boxes) {
  box.value = recall(kept(box.dataset.key));
  box.addEventListener("input", () => { keep(kept(box.dataset.key), box.value); count(); });
}
form.elements.name.value = recall("name");
form.elements.name.addEventListener("input", () => keep("name", form.elements.name.value));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const name = form.elements.name.value.trim();
  const answers = boxes.map((box) => ({ key: box.dataset.key, text: box.value }));
  const saved = JSON.stringify({ name, ...JSON.parse(form.dataset.about), answers }, null, 1);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([saved], { type: "application/json" }));
  link.download = `answers-${name}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
});
count();
