import {fileURLToPath} from 'node:url';
import test from 'ava';

// The ceiling of the tree. A number that is exceeded is lowered in the code, or raised here in a commit of its own
// whose message says why, and which number falls elsewhere. One that has fallen by more than 3 % is lowered here, so
// that the room is not filled again.

type Sizes = Readonly<Record<string, number>>;

const folders: Sizes = {
	api: 3_409,
	cli: 4_285,
	client: 414,
	compose: 5_376,
	config: 2_720,
	daemon: 8_161,
	dashboard: 3_741,
	deliver: 4_466,
	doctor: 1_662,
	hosted: 1_888,
	inbound: 9_253,
	kit: 2_380,
	mail: 4_180,
	net: 2_439,
	outcome: 3_571,
	queue: 5_061,
	resources: 1_382,
	'resources/alerts': 2_137,
	'resources/apply': 762,
	'resources/audit': 254,
	'resources/certificates': 1_325,
	'resources/contacts': 571,
	'resources/domains': 5_229,
	'resources/keys': 592,
	'resources/messages': 5_683,
	'resources/received': 2_793,
	'resources/smarthosts': 933,
	'resources/suppressions': 1_851,
	'resources/templates': 4_128,
	'resources/topics': 884,
	'resources/users': 1_809,
	'resources/webhooks': 4_084,
	'resources/workspaces': 1_896,
	send: 2_199,
	store: 11_300,
};

const whole: Sizes = {
	'lines of src': 112_818,
	'files of src': 609,
	'functions over 60 lines': 30,
	'functions over 100 lines': 10,
	'lines over 120 columns': 510,
	'lines over 160 columns': 188,
	'private exports': 177,
	'lines of tests': 111_176,
	'lines of docs': 7_998,
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
