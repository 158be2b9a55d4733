"use strict";
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const one = (what) => document.getElementById(what);
  const data = JSON.parse(one("data").textContent);
  const FEW = 20; // rows of a long table before it is asked for more

  // A browser would show the title of a drawing as a tooltip of its own, over ours.
  for (const title of all("svg > title")) {
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.parentNode.removeAttribute("aria-labelledby");
    title.remove();
  }

  // Light or dark: as the system says, until somebody asks for the other.
  const root = document.documentElement;
  one("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // On a phone the contents would push the answer off the screen.
  if (matchMedia("(max-width: 860px)").matches) {
    all("nav details").forEach((list) => list.removeAttribute("open"));
  }

  // Tooltips.
  const tip = one("tip");
  const point = (event) => {
    const mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    tip.hidden = !mark;
    if (!mark) return;
    if (tip.dataset.of !== mark.dataset.tip) {
      tip.dataset.of = mark.dataset.tip;
      tip.replaceChildren(
        ...mark.dataset.tip.split("\n").map((line, number) => {
          const part = document.createElement(number ? "span" : "b");
          part.textContent = line;
          return part;
        }),
      );
    }
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 18 + box.height < innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below ? event.clientY + 18 : Math.max(8, event.clientY - box.height - 12)}px`;
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Legends: both drawings of a figure, the wide and the narrow one, change together.
  const toggle = (key) => {
    const figure = key.closest("figure");
    const shown = key.getAttribute("aria-pressed") !== "true";
    for (const other of all(`.key[data-s="${key.dataset.s}"]`, figure)) {
      other.setAttribute("aria-pressed", String(shown));
    }
    for (const mark of all(`.m[data-s="${key.dataset.s}"]`, figure)) {
      mark.classList.toggle("off", !shown);
    }
  };
  for (const key of all(".key")) {
    key.addEventListener("click", () => toggle(key));
    key.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        toggle(key);
      }
    });
  }

  // Tables: sorted by a click on a heading, long ones cut until asked for.
  const trim = (table) => {
    const open = table.dataset.open === "yes";
    all("tbody tr:not(.out)", table).forEach((row, number) => {
      row.classList.toggle("rest", !open && number >= FEW);
    });
  };
  const sort = (table, head, index) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => {
      const cell = row.cells[index];
      if (cell.classList.contains("none")) return null;
      return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
    };
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [value(row), row]);
    // What is missing comes last either way.
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
    trim(table);
  };
  for (const table of all("table")) {
    all("th", table).forEach((head, index) => {
      head.firstElementChild.addEventListener("click", () => sort(table, head, index));
    });
    if (!table.closest(".drawn") && table.tBodies[0].rows.length > FEW + 5) {
      const more = document.createElement("button");
      more.className = "more";
      more.textContent = `Show all ${table.tBodies[0].rows.length} rows`;
      more.addEventListener("click", () => {
        table.dataset.open = "yes";
        more.remove();
        trim(table);
      });
      table.closest(".table").append(more);
    } else {
      table.dataset.open = "yes";
    }
    trim(table);
  }

  // The filter. Only what names a model, a target or a machine can be filtered; a roof or a bound stays.
  const known = new Map();
  const named = (text) => {
    if (!known.has(text)) known.set(text, data.names.some((name) => text.includes(name)));
    return known.get(text);
  };
  const things = [];
  for (const row of all("main tbody tr")) {
    const figure = row.closest("figure");
    const text = [...row.cells].filter((cell) => !cell.classList.contains("n")).map((cell) => cell.textContent);
    const bar = row.closest(".table").querySelector(".bar > span:not(.get)");
    const title = figure ? figure.querySelector("figcaption").textContent : "";
    const key = [...text, bar ? bar.textContent : "", title].join(" ").toLowerCase();
    if (named(key)) things.push([row, key]);
  }
  for (const line of all(".findings > li")) {
    const key = `${line.textContent.toLowerCase()} ${line.dataset.k || ""}`;
    if (named(key)) things.push([line, key]);
  }
  for (const mark of all("svg [data-k]")) {
    const own = mark.dataset.k;
    const whole = `${own} ${mark.ownerSVGElement.dataset.k}`;
    // A legend entry or a name on an axis may stand for marks of many models.
    if (named(mark.matches("g.m") ? whole : own)) things.push([mark, whole]);
  }
  const filter = one("filter");
  const apply = () => {
    const terms = filter.value.toLowerCase().split(/\s+/).filter((term) => term && term !== "-");
    const wanted = terms.filter((term) => !term.startsWith("-"));
    const unwanted = terms.filter((term) => term.startsWith("-")).map((term) => term.slice(1));
    let rows = 0;
    let left = 0;
    for (const [thing, key] of things) {
      const shown = wanted.every((term) => key.includes(term)) && !unwanted.some((term) => key.includes(term));
      thing.classList.toggle("out", !shown);
      if (thing.localName === "tr" && !thing.closest("figure")) {
        rows += 1;
        left += shown;
      }
    }
    for (const figure of all("figure")) {
      const marks = all(".wide [data-tip]", figure);
      figure.classList.toggle("out", marks.length > 0 && marks.every((mark) => mark.classList.contains("out")));
    }
    all("table").forEach(trim);
    one("matches").textContent = terms.length ? `${left} of ${rows} rows` : "";
  };
  filter.addEventListener("input", apply);
  apply();

  // Downloads: the raw values, from the data inside this page.
  const quoted = (value) => {
    if (value === null) return "";
    const text = String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const written = {
    csv: (table) => [table.columns, ...table.rows].map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n",
    json: (table) => JSON.stringify(table.rows.map((row) =>
      Object.fromEntries(table.columns.map((column, index) => [column, row[index]]))), null, 1),
  };
  const types = { csv: "text/csv", json: "application/json" };
  for (const button of all("[data-get]")) {
    button.addEventListener("click", () => {
      const table = data.tables[button.dataset.get];
      const kind = button.dataset.as;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([written[kind](table)], { type: types[kind] }));
      link.download = `${table.name}.${kind}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }

  // Where in the contents the reader is.
  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.classList.remove("here"));
      links.get(entry.target.id)?.classList.add("here");
    }
  }, { rootMargin: "-80px 0px -75% 0px" });
  all("main section").forEach((section) => seen.observe(section));
})();
