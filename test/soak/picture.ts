import {type Moment, quantile, type Run, type Sample} from './record.ts';

// The picture of a run: panels that share the time, what was done as lines through all of them.

type Series = {
	readonly name: string;
	readonly color: string;
	readonly of: (sample: Sample) => number | null;
	/** What a column of seconds shows: the most of them, or their median. */
	readonly peaks?: boolean;
	readonly thin?: boolean;
};

type Panel = {readonly title: string; readonly log?: boolean; readonly series: readonly Series[]};

const [blue, green, red, orange, purple, grey] = ['#2563b0', '#2e8b57', '#c8372d', '#d9822b', '#7b4fa3', '#8a8f98'];

const panels: readonly Panel[] = [
	{
		title: 'Mails a second',
		series: [
			{name: 'accepted', color: blue as string, of: ({accepted}) => accepted},
			{name: 'arrived', color: green as string, of: ({arrived}) => arrived},
			{name: '503', color: red as string, of: ({refused}) => refused, peaks: true},
			{name: 'no daemon', color: grey as string, of: ({away}) => away, peaks: true},
		],
	},
	{
		title: 'Latency, ms',
		log: true,
		series: [
			{name: 'POST to 202: median', color: blue as string, of: ({answerP50}) => answerP50},
			{name: 'p99', color: '#8db4de', of: ({answerP99}) => answerP99, thin: true},
			{name: 'POST to the host’s 250: median', color: green as string, of: ({arriveP50}) => arriveP50},
			{name: 'p99', color: '#8fcbaa', of: ({arriveP99}) => arriveP99, thin: true},
			{name: 'event loop p99', color: orange as string, of: ({lagMs}) => lagMs, thin: true},
		],
	},
	{
		title: 'Mails that wait',
		log: true,
		series: [
			{name: 'accepted, not arrived', color: blue as string, of: ({waiting}) => waiting, peaks: true},
			{name: 'deferred', color: red as string, of: ({deferred}) => deferred, peaks: true},
		],
	},
	{
		title: 'Memory, MB',
		series: [
			{name: 'RSS, all threads', color: purple as string, of: ({rssMb}) => rssMb},
			{name: 'heap of the main thread', color: '#bfa3d6', of: ({heapMb}) => heapMb},
		],
	},
	{
		title: 'Files, MB',
		log: true,
		series: [
			{name: 'database', color: blue as string, of: ({storeMb}) => storeMb},
			{name: 'write-ahead log', color: red as string, of: ({walMb}) => walMb, peaks: true},
			{name: 'free', color: grey as string, of: ({freeMb}) => freeMb, thin: true},
		],
	},
	{
		title: 'File descriptors',
		series: [{name: 'open', color: orange as string, of: ({descriptors}) => descriptors, peaks: true}],
	},
];

const size = {width: 1200, left: 64, right: 24, top: 128, panel: 124, gap: 34, bottom: 40};
const plotWidth = size.width - size.left - size.right;
const columns = 400;
const [labelsTop, labelHeight, letterWidth] = [64, 14, 6.5];
const moment = 'stroke="#5b6270" stroke-dasharray="3 3" stroke-width="0.8"';

const labels: Readonly<Record<Exclude<Moment['what'], 'load'>, string>> = {
	backup: 'backup',
	restart: 'restart',
	kill: 'kill -9',
	dead: 'one host of 40 dead',
	full: 'disk full',
};

const tints: Readonly<Record<string, string>> = {dead: '#f6ead2', full: '#f6d3cf'};

export function drawRun({facts, samples, moments}: Run): string {
	const lastS = Math.max(facts.seconds, samples.at(-1)?.at ?? 0);
	const x = (at: number) => round(size.left + (at / lastS) * plotWidth);
	const height = size.top + panels.length * (size.panel + size.gap) - size.gap + size.bottom;
	const floor = height - size.bottom;
	const minutes = facts.seconds / 60;
	const title = `${minutes} minutes at ${facts.perS} mails a second, ${Math.round((100 * facts.perS) / facts.topPerS)} % of the ${facts.topPerS} that this machine sent at most`;
	const shown = moments.filter(moment => moment.what !== 'load') as ReadonlyArray<
		Moment & {readonly what: keyof typeof labels}
	>;
	return [
		`<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${height}" viewBox="0 0 ${size.width} ${height}" font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#3b4048">`,
		`<title>A soak of ${title}</title>`,
		`<rect width="${size.width}" height="${height}" fill="#ffffff"/>`,
		`<text x="${size.left}" y="30" font-size="18" font-weight="bold" fill="#1d2129">Soak</text>`,
		`<text x="${size.left}" y="50">${title}</text>`,
		...shown
			.filter(({what}) => tints[what])
			.map(
				({what, from, to}) =>
					`<rect x="${x(from)}" y="${size.top}" width="${round(x(to) - x(from))}" height="${floor - size.top}" fill="${tints[what]}" opacity="0.6"/>`,
			),
		...panels.flatMap((panel, index) =>
			drawPanel(panel, samples, lastS, size.top + index * (size.panel + size.gap)),
		),
		...namesOf(shown.map(({what, from}) => ({name: labels[what], at: x(from)}))).flatMap(({name, at, row}) => {
			const y = labelsTop + row * labelHeight;
			return [
				line(at, y + 4, at, floor, moment),
				`<text x="${at + 3}" y="${y + 8}" font-size="11" fill="#1d2129">${name}</text>`,
			];
		}),
		...shown.filter(({what}) => tints[what]).map(({to}) => line(x(to), size.top, x(to), floor, moment)),
		...ticksOf(lastS / 60, 12).map(
			minute => `<text x="${x(minute * 60)}" y="${floor + 18}" text-anchor="middle">${minute}</text>`,
		),
		`<text x="${size.width - size.right}" y="${floor + 34}" text-anchor="end">minutes</text>`,
		'</svg>\n',
	].join('\n');
}

/** Gives each name, from left to right, the first row where it has room. */
function namesOf(moments: ReadonlyArray<{readonly name: string; readonly at: number}>) {
	const ends: number[] = [];
	return moments
		.toSorted((one, other) => one.at - other.at)
		.map(({name, at}) => {
			const free = ends.findIndex(end => end < at);
			const row = free === -1 ? ends.length : free;
			ends[row] = at + name.length * letterWidth;
			return {name, at, row};
		});
}

function drawPanel(
	{title, log = false, series}: Panel,
	samples: readonly Sample[],
	lastS: number,
	top: number,
): string[] {
	const drawn = series.map(each => ({...each, points: columnsOf(samples, lastS, each)}));
	const values = drawn.flatMap(({points}) => points.filter(value => value !== null));
	const most = Math.max(1, ...values);
	const [low, high] = log ? [0, Math.ceil(Math.log10(most))] : [0, most * 1.08];
	const share = (value: number) => ((log ? Math.log10(Math.max(1, value)) : value) - low) / (high - low);
	const y = (value: number) => round(top + size.panel - share(value) * size.panel);
	const ticks = log ? Array.from({length: high + 1}, (_, power) => 10 ** power) : ticksOf(high, 4);
	const legend = drawn.map(({name, color}) => `<tspan dx="14" fill="${color}">●</tspan> ${name}`).join('');
	return [
		...ticks.flatMap(tick => [
			line(size.left, y(tick), size.width - size.right, y(tick), 'stroke="#e3e5e9"'),
			`<text x="${size.left - 8}" y="${y(tick) + 4}" text-anchor="end" font-size="11">${log && tick === 1 ? '≤ 1' : tick.toLocaleString('en')}</text>`,
		]),
		...drawn.map(
			({points, color, thin}) =>
				`<path d="${pathOf(points, y)}" fill="none" stroke="${color}" stroke-width="${thin ? 1 : 1.6}" stroke-linejoin="round"/>`,
		),
		`<text x="${size.left}" y="${top - 8}" stroke="#ffffff" stroke-width="3" paint-order="stroke"><tspan font-weight="bold" fill="#1d2129">${title}</tspan>${legend}</text>`,
	];
}

/** A value for each column of the picture; null where none was measured. */
function columnsOf(samples: readonly Sample[], lastS: number, {of, peaks = false}: Series): Array<number | null> {
	const count = Math.min(columns, Math.floor(lastS));
	const parts = Array.from({length: count}, () => ({seen: 0, values: [] as number[]}));
	for (const sample of samples) {
		const part = parts[Math.min(count - 1, Math.floor((sample.at / lastS) * count))];
		const value = of(sample);
		if (part) {
			part.seen++;
			part.values.push(...(value === null ? [] : [value]));
		}
	}
	let last: number | null = null;
	return parts.map(({seen, values}) => {
		// A second that took a little longer leaves the next column without a sample.
		last = seen === 0 ? last : values.length === 0 ? null : peaks ? Math.max(...values) : quantile(values, 0.5);
		return last;
	});
}

function pathOf(points: readonly (number | null)[], y: (value: number) => number): string {
	let pen = 'M';
	return points
		.map((value, index) => {
			if (value === null) {
				pen = 'M';
				return '';
			}
			const step = `${pen}${round(size.left + ((index + 0.5) / points.length) * plotWidth)} ${y(value)}`;
			pen = 'L';
			return step;
		})
		.join('');
}

function ticksOf(most: number, count: number): number[] {
	const rough = most / count;
	const power = 10 ** Math.floor(Math.log10(rough));
	const step = power * ([1, 2, 5, 10].find(factor => factor * power >= rough) as number);
	return Array.from({length: Math.floor(most / step) + 1}, (_, index) => round(index * step));
}

const line = (x1: number, y1: number, x2: number, y2: number, style: string) =>
	`<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${style}/>`;

const round = (value: number) => Math.round(value * 10) / 10;
