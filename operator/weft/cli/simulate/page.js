"use strict";
const read = JSON.parse(document.getElementById("read").textContent);
const charts = document.querySelectorAll("figure");
const cursors = document.querySelectorAll(".cursor");
const quiet = [...charts].map(figure => figure.querySelector("output").innerHTML);
document.addEventListener("pointermove", event => {
  const over = event.target.closest("svg[role=img]");
  document.body.classList.toggle("reading", !!over);
  if (!over) return charts.forEach((figure, i) => { figure.querySelector("output").innerHTML = quiet[i]; });
  const box = over.getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width * read.width;
  const at = Math.min(1, Math.max(0, (x - read.left) / (read.width - read.left - read.right)));
  const bin = Math.min(read.clock.length - 1, Math.floor(at * read.clock.length));
  const middle = read.left + at * (read.width - read.left - read.right);
  cursors.forEach(line => { line.setAttribute("x1", middle); line.setAttribute("x2", middle); });
  charts.forEach((figure, i) => {
    const told = read.told[i] && read.told[i][bin];
    figure.querySelector("output").innerHTML = told === undefined ? quiet[i] : `<em>${read.clock[bin]}</em> ${told}`;
  });
});
