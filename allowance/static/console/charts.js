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
  const write = (value) => Number(value).toLocaleString("en-US") + (given.unit ? ` ${given.unit}` : "");
  const datasets = given.series.map(({ label, data }, index) => ({
    label,
    data,
    backgroundColor: color((index % 6) + 1),
    borderColor: color((index % 6) + 1),
    borderWidth: given.type === "line" ? 2 : 0,
    pointRadius: given.type === "line" ? 2 : 0,
    maxBarThickness: 36,
    tension: 0.25,
  }));
  const axis = (isStacked) => ({
    stacked: isStacked,
    border: { display: false },
    ticks: { color: color("text"), maxRotation: given.labels.length > 14 ? 0 : 40, autoSkip: given.labels.length > 14, autoSkipPadding: 16 },
  });
  Chart.getChart(canvas)?.destroy();
  new Chart(canvas, {
    type: given.type,
    data: { labels: given.labels, datasets },
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      scales: {
        x: { ...axis(given.stacked), grid: { display: false } },
        y: {
          ...axis(given.stacked),
          beginAtZero: true,
          grid: { color: color("grid") },
          ticks: { color: color("text"), maxTicksLimit: 6, callback: (value) => Number(value).toLocaleString("en-US") },
        },
      },
      plugins: {
        legend: { display: datasets.length > 1, align: "start", labels: { color: color("text"), boxWidth: 12, boxHeight: 12 } },
        tooltip: { callbacks: { label: ({ dataset, raw }) => ` ${dataset.label}: ${write(raw)}` } },
      },
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
