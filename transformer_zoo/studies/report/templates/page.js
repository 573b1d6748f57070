// Tables that sort by a column at a press of its head: falling, rising, and
// back to the order of the study. Empty cells stay last.
"use strict";

function key(line, index) {
  const cell = line.cells[index];
  return cell.dataset.order ?? cell.textContent.trim();
}

function compare(one, other) {
  const difference = Number(one) - Number(other);
  return Number.isNaN(difference)
    ? one.localeCompare(other, undefined, { numeric: true })
    : difference;
}

function sort(table, lines, index, direction) {
  const body = table.tBodies[0];
  if (direction === "none") {
    body.append(...lines);
    return;
  }
  const sign = direction === "ascending" ? 1 : -1;
  const filled = lines.filter((line) => key(line, index) !== "");
  const empty = lines.filter((line) => key(line, index) === "");
  filled.sort((a, b) => sign * compare(key(a, index), key(b, index)));
  body.append(...filled, ...empty);
}

const NEXT = { none: "descending", descending: "ascending", ascending: "none" };

for (const table of document.querySelectorAll("table.sortable")) {
  const lines = [...table.tBodies[0].rows];
  const heads = [...[...table.tHead.rows].at(-1).cells];
  heads.forEach((head, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const direction = NEXT[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", direction);
      sort(table, lines, index, direction);
    });
  });
}

// A link into something that is folded away unfolds it.
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let folded = target?.closest("details:not([open])");
  while (folded) {
    folded.open = true;
    folded = folded.parentElement.closest("details:not([open])");
  }
  target?.scrollIntoView();
}

addEventListener("hashchange", unfold);
unfold();
