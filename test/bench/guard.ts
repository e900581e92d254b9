import {createHash, generateKeyPairSync, sign} from 'node:crypto';
import {readFileSync, writeFileSync} from 'node:fs';
import process from 'node:process';
import type {Figures} from '../../src/cli/bench/measures.ts';

// `npm run bench -- --guard` fails if a message costs more CPU time than the tree records. Machines differ, and so does
// one machine from minute to minute. A cost is therefore the CPU time of a message divided by that of a fixed
// computation just before and after it.

/** The CPU time of an accept and of a receipt from request to delivery, in units of `measureUnit`. */
export type Costs = {readonly accept: number; readonly receipt: number};

type Measurements = Readonly<Record<keyof Costs, () => Promise<Figures>>>;

const rounds = 5;
/** How much more than recorded a message may cost. On a busy machine, runs of one build differ by 6 %. */
export const tolerance = 0.03;
const recorded = 'test/bench/costs.json';

const {privateKey} = generateKeyPairSync('rsa', {modulusLength: 2048});
const body = JSON.stringify({
	to: 'user@example.com',
	items: Array.from({length: 10}, (_, n) => ({name: `Item ${n}`, price: n * 1.5})),
});
const content = Buffer.alloc(17 * 1024, 'receipt');

/** What a message costs in miniature: parsing, text, a hash and a signature. */
function compute(): number {
	let octets = 0;
	for (let n = 0; n < 20; n++) {
		const parsed = JSON.parse(body) as {items: ReadonlyArray<{name: string; price: number}>};
		octets += parsed.items.map(({name, price}) => `<td>${name}</td><td>${price.toFixed(2)}</td>`).join('').length;
	}
	const digest = createHash('sha256').update(content).digest();
	return octets + sign('sha256', digest, privateKey).length;
}

const unitCount = 1500;

/** Returns the CPU time of the fixed computation in microseconds. */
function measureUnit(): number {
	const before = process.cpuUsage();
	for (let n = 0; n < unitCount; n++) {
		compute();
	}
	const {user, system} = process.cpuUsage(before);
	return (user + system) / unitCount;
}

/** Measures a message several times and returns its median costs. */
export async function measureCosts(measurements: Measurements): Promise<Costs> {
	measureUnit(); // Compiled from here on.
	const samples: Record<keyof Costs, number[]> = {accept: [], receipt: []};
	for (let round = 0; round < rounds; round++) {
		for (const [name, measure] of Object.entries(measurements) as Array<[keyof Costs, () => Promise<Figures>]>) {
			const before = measureUnit();
			const {cpu_us: cpuUs} = await measure();
			const unit = (before + measureUnit()) / 2;
			samples[name].push((cpuUs ?? Number.NaN) / unit);
		}
	}
	return {accept: median(samples.accept), receipt: median(samples.receipt)};
}

function median(values: readonly number[]): number {
	const middle = values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
	return Math.round(1000 * middle) / 1000;
}

/** Returns a sentence for each message that costs more than recorded. */
export function findRegressions(costs: Costs, limits: Costs): string[] {
	return (['accept', 'receipt'] as const).flatMap(name => {
		const ratio = costs[name] / limits[name];
		const percent = Math.round(100 * (ratio - 1));
		return ratio <= 1 + tolerance
			? []
			: [`${name}: costs ${percent} % more CPU time than recorded (${limits[name]} → ${costs[name]}).`];
	});
}

export const readCosts = (): Costs => JSON.parse(readFileSync(recorded, 'utf8'));

export function recordCosts(costs: Costs): void {
	writeFileSync(recorded, `${JSON.stringify(costs, null, '\t')}\n`);
}
