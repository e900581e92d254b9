import {fileURLToPath} from 'node:url';
import test from 'ava';

// The ceiling of the tree. A number that is exceeded is lowered in the code, or raised here in a commit of its own
// whose message says why, and which number falls elsewhere. One that has fallen by more than 3 % is lowered here, so
// that the room is not filled again.

type Sizes = Readonly<Record<string, number>>;

const folders: Sizes = {
	api: 3_419,
	cli: 4_276,
	client: 416,
	compose: 5_380,
	config: 2_771,
	daemon: 8_153,
	dashboard: 3_580,
	deliver: 4_463,
	doctor: 1_668,
	hosted: 1_870,
	inbound: 9_250,
	kit: 2_384,
	mail: 4_180,
	net: 2_439,
	outcome: 3_569,
	queue: 5_060,
	resources: 1_382,
	'resources/alerts': 1_842,
	'resources/apply': 757,
	'resources/audit': 253,
	'resources/certificates': 1_323,
	'resources/contacts': 553,
	'resources/domains': 5_215,
	'resources/keys': 578,
	'resources/messages': 5_601,
	'resources/received': 2_786,
	'resources/smarthosts': 932,
	'resources/suppressions': 1_857,
	'resources/templates': 4_129,
	'resources/topics': 869,
	'resources/users': 1_791,
	'resources/webhooks': 4_062,
	'resources/workspaces': 1_917,
	send: 2_135,
	store: 11_018,
};

const whole: Sizes = {
	'lines of src': 111_878,
	'files of src': 604,
	'functions over 60 lines': 57,
	'functions over 100 lines': 10,
	'lines over 120 columns': 535,
	'lines over 160 columns': 194,
	'private exports': 178,
	'lines of tests': 110_193,
	'lines of docs': 7_988,
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
