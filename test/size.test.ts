import {fileURLToPath} from 'node:url';
import test from 'ava';

// The ceiling of the tree. A number that is exceeded is lowered in the code, or raised here in a commit of its own
// whose message says why, and which number falls elsewhere. One that has fallen by more than 3 % is lowered here, so
// that the room is not filled again.

type Sizes = Readonly<Record<string, number>>;

const folders: Sizes = {
	accept: 1_101,
	admin: 3_762,
	alerts: 807,
	api: 8_796,
	backup: 430,
	bench: 743,
	bounce: 693,
	certificates: 919,
	cli: 9_764,
	client: 416,
	cluster: 246,
	compose: 1_477,
	config: 2_771,
	daemon: 7_088,
	dashboard: 10_438,
	'data-folder': 1_035,
	declared: 951,
	deliver: 4_092,
	dns: 513,
	doctor: 1_668,
	domains: 2_197,
	hosted: 1_869,
	inbound: 3_756,
	kit: 1_619,
	links: 795,
	log: 252,
	mail: 3_155,
	'mta-sts': 460,
	net: 975,
	ops: 1_507,
	outcome: 3_131,
	pace: 1_039,
	pool: 407,
	providers: 1_269,
	queue: 3_438,
	render: 3_108,
	report: 5_434,
	reputation: 437,
	routing: 340,
	store: 14_904,
	submission: 741,
	threads: 799,
	users: 1_089,
	webhook: 1_420,
};

const whole: Sizes = {
	'lines of src': 111_845,
	'files of src': 591,
	'functions over 60 lines': 62,
	'functions over 100 lines': 12,
	'lines over 120 columns': 554,
	'lines over 160 columns': 200,
	'private exports': 177,
	'lines of tests': 109_433,
	'lines of docs': 7_983,
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
