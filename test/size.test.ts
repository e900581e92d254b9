import {fileURLToPath} from 'node:url';
import test from 'ava';

// The ceiling of the tree. A number that is exceeded is lowered in the code, or raised here in a commit of its own
// whose message says why, and which number falls elsewhere. One that has fallen by more than 3 % is lowered here, so
// that the room is not filled again.

type Sizes = Readonly<Record<string, number>>;

const folders: Sizes = {
	accept: 1_088,
	admin: 3_738,
	alerts: 768,
	api: 8_729,
	backup: 430,
	bench: 728,
	bounce: 693,
	certificates: 900,
	cli: 9_715,
	client: 416,
	cluster: 246,
	compose: 1_472,
	config: 2_762,
	daemon: 6_998,
	dashboard: 10_368,
	'data-folder': 1_028,
	declared: 934,
	deliver: 4_058,
	dns: 493,
	doctor: 1_660,
	domains: 2_153,
	hosted: 1_862,
	inbound: 3_740,
	kit: 1_602,
	links: 795,
	log: 252,
	mail: 3_118,
	'mta-sts': 456,
	net: 967,
	ops: 1_486,
	outcome: 3_104,
	pace: 1_035,
	pool: 396,
	providers: 1_230,
	queue: 3_407,
	render: 3_076,
	report: 5_403,
	reputation: 437,
	routing: 336,
	store: 14_769,
	submission: 730,
	threads: 799,
	users: 1_070,
	webhook: 1_414,
};

const whole: Sizes = {
	'lines of src': 110_858,
	'files of src': 590,
	'functions over 60 lines': 62,
	'functions over 100 lines': 12,
	'lines over 120 columns': 554,
	'lines over 160 columns': 200,
	'private exports': 177,
	'lines of tests': 109_433,
	'lines of docs': 7_978,
};

const {sizesOf} = (await import(new URL('../../scripts/sizes.js', import.meta.url).href)) as {
	sizesOf: (root: string) => {readonly folders: Sizes; readonly whole: Sizes};
};
const now = sizesOf(fileURLToPath(new URL('../../', import.meta.url)));

/** What differs from the table by more than it may. */
function findings(actual: Sizes, table: Sizes): string[] {
	return [...new Set([...Object.keys(actual), ...Object.keys(table)])].flatMap(name => {
		const size = actual[name] ?? 0;
		const ceiling = table[name];
		if (ceiling === undefined) {
			return [`${name}: ${size}, and the table has no ceiling for it`];
		}
		if (size > ceiling) {
			return [`${name}: ${size}, the ceiling is ${ceiling}`];
		}
		return size < ceiling * 0.97 ? [`${name}: ${size}, lower its ceiling of ${ceiling}`] : [];
	});
}

test('folders of src are as large as their ceilings at most', t => {
	t.deepEqual(findings(now.folders, folders), []);
});

test('the whole is as large as its ceilings at most', t => {
	t.deepEqual(findings(now.whole, whole), []);
});

test('a finding names what grew, what fell and what is new', t => {
	t.deepEqual(findings({same: 100, grew: 101, fell: 96, new: 1}, {same: 100, grew: 100, fell: 100, gone: 5}), [
		'grew: 101, the ceiling is 100',
		'fell: 96, lower its ceiling of 100',
		'new: 1, and the table has no ceiling for it',
		'gone: 0, lower its ceiling of 5',
	]);
});
