import {fileURLToPath} from 'node:url';
import test from 'ava';

// The ceiling of the tree. A number that is exceeded is lowered in the code, or raised here in a commit of its own
// whose message says why, and which number falls elsewhere. One that has fallen by more than 3 % is lowered here, so
// that the room is not filled again.

type Sizes = Readonly<Record<string, number>>;

const folders: Sizes = {
	accept: 1_068,
	admin: 3_642,
	alerts: 746,
	api: 8_415,
	backup: 404,
	bench: 709,
	bounce: 688,
	certificates: 860,
	cli: 9_363,
	client: 387,
	cluster: 239,
	compose: 1_445,
	config: 2_687,
	daemon: 6_321,
	dashboard: 10_200,
	'data-folder': 992,
	declared: 909,
	deliver: 3_961,
	dns: 484,
	doctor: 1_558,
	domains: 2_076,
	hosted: 1_826,
	inbound: 3_668,
	kit: 1_544,
	links: 785,
	log: 246,
	mail: 3_063,
	'mta-sts': 433,
	net: 944,
	ops: 1_450,
	outcome: 3_061,
	pace: 1_024,
	pool: 387,
	providers: 1_201,
	queue: 3_291,
	render: 2_996,
	report: 5_294,
	reputation: 434,
	routing: 329,
	store: 14_399,
	submission: 714,
	threads: 723,
	users: 1_013,
	webhook: 1_381,
};

const whole: Sizes = {
	'lines of src': 108_100,
	'files of src': 577,
	'functions over 60 lines': 94,
	'functions over 100 lines': 35,
	'lines over 120 columns': 1_910,
	'lines over 160 columns': 200,
	'private exports': 187,
	'lines of tests': 109_433,
	'lines of docs': 7_958,
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
