/** One panel as SVG: a line chart or a number. Grafana did not draw it; the query and what it says are the panel's own. */

export interface Series {
  readonly name: string;
  /** Seconds since the epoch, and the value. */
  readonly points: readonly (readonly [number, number])[];
}

export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface Mark {
  readonly at: number;
  readonly text: string;
}

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export const ink = { text: '#24292f', faint: '#6e7781', line: '#d8dee4', panel: '#ffffff', page: '#f6f8fa', mark: '#8c959f' };
const palette = ['#2f7ed8', '#d9822b', '#3a9e5c', '#b5479d', '#c9312c', '#7a6cc9', '#1f9e9e', '#8a6d3b', '#57606a'];
const levels: Readonly<Record<string, string>> = { green: '#2c8a4b', orange: '#c4731b', red: '#c9312c' };

const colorOf = (at: number) => palette[at % palette.length] ?? ink.text;

export const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

export function text(x: number, y: number, words: string, style = ''): string {
  return `<text x="${fixed(x)}" y="${fixed(y)}" ${style}>${escape(words)}</text>`;
}

const fixed = (value: number) => String(Math.round(value * 10) / 10);

export function frame({ x, y, width, height }: Box, title: string, size = 12): string {
  return (
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="4" fill="${ink.panel}" stroke="${ink.line}"/>` +
    text(x + 10, y + 18, title, `font-size="${size}" font-weight="600"`)
  );
}

export interface Step {
  readonly value: number | null;
  readonly color: string;
}

export function stat(box: Box, title: string, value: number | undefined, unit: string, steps: readonly Step[]): string {
  const level = value === undefined ? undefined : steps.findLast(step => step.value === null || value >= step.value)?.color;
  const color = levels[level ?? ''] ?? (value === undefined ? ink.faint : ink.text);
  const shown = value === undefined ? 'none' : format(value, unit);
  const middle = box.x + box.width / 2;
  return frame(box, title, title.length > 26 ? 9 : 10) + text(middle, box.y + box.height / 2 + 20, shown, `font-size="28" font-weight="600" fill="${color}" text-anchor="middle"`);
}

export function lines(box: Box, title: string, unit: string, all: readonly Series[], span: Span, marks: readonly Mark[]): string {
  const series = all.filter(({ points }) => points.some(([, value]) => Number.isFinite(value)));
  const plot = { x: box.x + 50, y: box.y + 30, width: box.width - 62, height: box.height - 76 };
  const top = niceTop(Math.max(0, ...series.flatMap(({ points }) => points.map(([, value]) => (Number.isFinite(value) ? value : 0)))), unit);
  const px = (at: number) => plot.x + ((at - span.from) / (span.to - span.from)) * plot.width;
  const py = (value: number) => plot.y + plot.height - (value / top) * plot.height;
  const grid = [0, 0.25, 0.5, 0.75, 1].map(share => {
    const y = py(top * share);
    const label = text(plot.x - 6, y + 4, format(top * share, unit), `font-size="10" fill="${ink.faint}" text-anchor="end"`);
    return `<path d="M${plot.x} ${fixed(y)}h${plot.width}" stroke="${ink.line}" stroke-width="${share === 0 ? 1 : 0.6}"/>${label}`;
  });
  const times = ticks(span).map(at => text(px(at), plot.y + plot.height + 14, clock(at), `font-size="10" fill="${ink.faint}" text-anchor="middle"`));
  const faults = marks.map(({ at }) => `<path d="M${fixed(px(at))} ${plot.y}v${plot.height}" stroke="${ink.mark}" stroke-dasharray="3 3"/>`);
  const drawn = series.map(({ points }, at) => line(points, px, py, colorOf(at)));
  const none = series.length > 0 ? '' : text(plot.x + plot.width / 2, plot.y + plot.height / 2, 'nothing in this time', `font-size="11" fill="${ink.faint}" text-anchor="middle"`);
  return frame(box, title) + grid.join('') + faults.join('') + drawn.join('') + times.join('') + none + legend(box, series, unit);
}

function line(points: Series['points'], px: (at: number) => number, py: (value: number) => number, color: string): string {
  let path = '';
  let open = false;
  let previous = Number.NEGATIVE_INFINITY;
  for (const [at, value] of points) {
    const known = Number.isFinite(value);
    // Where samples are missing so is the line.
    if (known) path += `${open && at - previous < 5 ? 'L' : 'M'}${fixed(px(at))} ${fixed(py(value))}`;
    open = known;
    previous = at;
  }
  return `<path d="${path}" fill="none" stroke="${color}" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round"/>`;
}

/** With the largest value of each where there is room for that. */
function legend(box: Box, series: readonly Series[], unit: string): string {
  const widthOf = (words: string) => 24 + words.length * 5.4;
  const room = box.width - 24;
  const long = series.map(({ name, points }) => `${name} (max ${format(largest(points), unit)})`);
  const fits = (all: readonly string[]) => all.reduce((sum, words) => sum + widthOf(words), 0) <= room;
  const shown = fits(long) ? long : series.map(({ name }) => name);
  const y = box.y + box.height - 10;
  let x = box.x + 12;
  let out = '';
  for (const [at, words] of shown.entries()) {
    if (x + widthOf(words) > box.x + box.width) return out + text(x, y - 2, '…', `font-size="10" fill="${ink.faint}"`);
    out += `<rect x="${fixed(x)}" y="${y - 7}" width="9" height="3" fill="${colorOf(at)}"/>` + text(x + 13, y - 2, words, `font-size="10"`);
    x += widthOf(words);
  }
  return out;
}

const largest = (points: Series['points']) => Math.max(...points.map(([, value]) => value).filter(Number.isFinite));

function ticks({ from, to }: Span): number[] {
  const step = [10, 15, 30, 60, 120, 300].find(seconds => (to - from) / seconds <= 6) ?? 600;
  const first = Math.ceil(from / step) * step;
  return Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, at) => first + at * step);
}

export const clock = (at: number) => new Date(at * 1000).toISOString().slice(11, 19);

function niceTop(most: number, unit: string): number {
  if (unit === 'percentunit' && (most > 0.4 || most === 0)) return 1;
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].find(times => times * power >= most * 1.05) ?? 20) * power;
}

/** Units by Grafana's names. */
export function format(value: number, unit: string): string {
  const short = (number: number) => String(Number(number.toPrecision(3)));
  if (unit === 'percentunit') return `${short(value * 100)}%`;
  if (unit === 's') return value !== 0 && Math.abs(value) < 1 ? `${short(value * 1000)} ms` : `${short(value)} s`;
  if (unit === 'ops') return `${short(value)}/s`;
  if (unit === 'bytes') return `${short(value / 1024 / 1024)} MiB`;
  return short(value);
}
