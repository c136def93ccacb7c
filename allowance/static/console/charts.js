// Draws <canvas class="chart" data-chart="id of a json_script">: see docs/console/look.md. The figures also stand in a table.
const canvases = [...document.querySelectorAll("canvas.chart[data-chart]")];
const library = document.currentScript.dataset.library;

function loadLibrary() {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    Object.assign(script, { src: library, onload: resolve, onerror: reject });
    document.head.append(script);
  });
}

function draw(canvas) {
  const given = JSON.parse(document.getElementById(canvas.dataset.chart).textContent);
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--chart-${name}`).trim();
  const write = (value) => `${Number(value).toLocaleString("en-US")} ${given.unit}`;
  const isLong = given.labels.length > 14;
  const ticks = { color: color("text"), maxRotation: isLong ? 0 : 40, autoSkip: isLong, autoSkipPadding: 16 };
  const open = (column) => given.links[column] && location.assign(given.links[column]);
  Chart.getChart(canvas)?.destroy();
  new Chart(canvas, {
    type: "bar",
    data: {
      labels: given.labels,
      datasets: [{ data: given.data, backgroundColor: color(given.color), maxBarThickness: 36 }],
    },
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      // A whole column is clicked on, also where its bar is small.
      onClick: (_event, [column]) => column && open(column.index),
      onHover: (_event, [column]) => (canvas.style.cursor = column && given.links[column.index] ? "pointer" : ""),
      scales: {
        x: { border: { display: false }, ticks, grid: { display: false } },
        y: {
          border: { display: false },
          beginAtZero: true,
          grid: { color: color("grid") },
          ticks: { color: color("text"), maxTicksLimit: 6, callback: (value) => Number(value).toLocaleString("en-US") },
        },
      },
      plugins: { legend: { display: false }, tooltip: { callbacks: { label: ({ raw }) => ` ${write(raw)}` } } },
    },
  });
}

if (canvases.length) {
  loadLibrary().then(() => {
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    const drawAll = () => canvases.forEach(draw);
    drawAll();
    document.addEventListener("theme", drawAll);
  });
}
