import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {nextStates, type RecipientState} from '../src/mail/message.ts';

/** The groups of the folders of src, from the ground up (ARCHITECTURE.md). */
const groups = {
	ground: ['kit', 'net', 'mail', 'config', 'store'],
	/** The way of a message, in order. */
	steps: ['send', 'queue', 'compose', 'deliver', 'outcome', 'inbound', 'hosted'],
	nouns: ['resources'],
	shells: ['doctor', 'api', 'cli', 'dashboard', 'daemon'],
	/** The package `mailctl/client`, which nothing else imports. */
	alone: ['client'],
} as const;
type Group = keyof typeof groups;

/** The files of a noun that only the registries import: what the API, the commands and the dashboard show of it. */
const face = /(?:^|-)(api|cli|page)\.ts$/;
const shellOf: Readonly<Record<string, string>> = {api: 'api', cli: 'cli', page: 'dashboard'};
const registries = ['src/api/server.ts', 'src/cli/commands.ts', 'src/dashboard/pages.ts'];
const isStore = (file: string): boolean => /(?:^|-)store\.ts$/.test(path.basename(file));

/** Imports that the rules would refuse, each with its reason. */
const exceptions: ReadonlyArray<readonly [from: RegExp, to: RegExp, reason: string]> = [
	[/^hosted\//, /^api\//, 'the hosted pages are routes of the API server'],
	[/^send\/submission\//, /^api\/caller\.ts$/, 'a submission uses the same keys as a request'],
	[/^send\/submission\//, /^compose\/(?:repair-field|seven-bit)\.ts$/, 'a submitted message is repaired at once'],
	[/^queue\/attempt\.ts$/, /^outcome\/settle\.ts$/, 'an attempt runs from the claim to its outcome'],
	[/^queue\/router\.ts$/, /^deliver\/sts-policies\.ts$/, 'a route includes the MTA-STS policy'],
	[/^config\//, /^queue\/pace\/choose-route\.ts$/, 'the destinations file has the form that routes are chosen by'],
	[/^net\/allowances\.ts$/, /^inbound\/addressee\.ts$/, 'an allowance depends on the kind of the addressee'],
	[/^store\//, /^resources\/[\w-]+\/(?:[\w-]+-)?store\.ts$/, 'one transaction changes rows of several nouns'],
	[
		/^resources\/apply\/cli\.ts$/,
		/^resources\/workspaces\/cli\.ts$/,
		'an applied workspace is shown like a listed one',
	],
];

function filesOf(folder: string): string[] {
	return readdirSync(folder, {recursive: true, encoding: 'utf8'})
		.filter(file => file.endsWith('.ts'))
		.map(file => path.join(folder, file));
}

type Import = {readonly from: string; readonly to: string; readonly isType: boolean};

const importing = /^(?:import|export)\b([^'"]*?)from '([^']+)'|\bimport\('([^']+)'\)/gm;

/** The modules that a file imports, relative ones as paths from the project's root. */
function importsOf(file: string): Import[] {
	return [...readFileSync(file, 'utf8').matchAll(importing)].map(([, names = '', from, lazily]) => {
		const target = (from ?? lazily) as string;
		const to = target.startsWith('.') ? path.join(path.dirname(file), target) : target;
		const [, list] = /\{([^}]*)\}/.exec(names) ?? [];
		const inner = (list ?? '').split(',').filter(name => name.trim() !== '');
		const areTypes = inner.length > 0 && inner.every(name => name.trim().startsWith('type '));
		return {from: file, to, isType: names.trim().startsWith('type ') || areTypes};
	});
}

const folders = readdirSync('src', {withFileTypes: true})
	.filter(entry => entry.isDirectory())
	.map(entry => entry.name);
const imports = filesOf('src')
	.flatMap(importsOf)
	.filter(({to}) => to.startsWith('src/'));
const folderOf = (file: string) => file.split('/')[1] ?? '';
const groupOf = (file: string) =>
	(Object.keys(groups) as Group[]).find(group => (groups[group] as readonly string[]).includes(folderOf(file)));
const isExcepted = ({from, to}: Import) =>
	exceptions.some(([one, other]) => one.test(from.slice('src/'.length)) && other.test(to.slice('src/'.length)));
const shown = ({from, to}: Import) => `${from} → ${to}`;

/** The imports between folders that a rule refuses, without the exceptions. */
function refused(rule: (one: Import) => boolean): string[] {
	return imports.filter(one => folderOf(one.from) !== folderOf(one.to) && rule(one) && !isExcepted(one)).map(shown);
}

test('every folder of src belongs to a group', t => {
	t.deepEqual(folders.toSorted(), Object.values(groups).flat().toSorted());
});

test('the ground imports only the ground', t => {
	t.deepEqual(
		refused(({from, to}) => groupOf(from) === 'ground' && groupOf(to) !== 'ground'),
		[],
	);
});

test('a step imports the ground, earlier steps, and only rules and stores of nouns', t => {
	const {steps} = groups;
	const place = (file: string) => (steps as readonly string[]).indexOf(folderOf(file));
	const isForbidden = ({from, to, isType}: Import) => {
		switch (groupOf(to)) {
			case 'ground':
				return false;
			case 'steps':
				return place(to) > place(from) && !isType;
			case 'nouns':
				return (
					!isType &&
					!isStore(to) &&
					path.basename(to) !== 'rules.ts' &&
					!/^src\/resources\/[\w-]+\.ts$/.test(to)
				);
			default:
				return true;
		}
	};
	t.deepEqual(
		refused(one => groupOf(one.from) === 'steps' && isForbidden(one)),
		[],
	);
});

test('what a shell shows of a noun is imported by its registry, and imports no other shell', t => {
	const isForeign = ({from, to}: Import) =>
		groupOf(to) === 'nouns' &&
		face.test(path.basename(to)) &&
		!registries.includes(from) &&
		path.dirname(from) !== path.dirname(to);
	t.deepEqual(
		imports.filter(one => isForeign(one) && groupOf(one.from) !== 'nouns' && !isExcepted(one)).map(shown),
		[],
	);
	const ofOther = ({from, to}: Import) => {
		const [, kind = ''] = face.exec(path.basename(from)) ?? [];
		return groupOf(from) === 'nouns' && groupOf(to) === 'shells' && shellOf[kind] !== folderOf(to);
	};
	const found = imports.filter(one => ofOther(one) && !isExcepted(one)).map(shown);
	t.true(found.length <= maxForeignShells, found.join('\n'));
});

test('a command never loads a page, which would slow its start', t => {
	t.deepEqual(
		imports
			.filter(
				({from, to}) =>
					/(?:^|-)cli\.ts$/.test(path.basename(from)) && /(?:^|-)page\.ts$/.test(path.basename(to)),
			)
			.map(shown),
		[],
	);
});

/** Imports of nouns by the machinery of the shells; the number may only fall. */
const maxNounsInMachinery = 55;
/** Nouns that still take parts of another shell; the number may only fall. */
const maxForeignShells = 10;

test('the machinery of the shells knows few nouns', t => {
	const found = imports.filter(
		({from, to}) =>
			['api', 'cli', 'dashboard'].includes(folderOf(from)) &&
			groupOf(to) === 'nouns' &&
			!registries.includes(from) &&
			!/^src\/resources\/[\w-]+\.ts$/.test(to),
	);
	t.true(found.length <= maxNounsInMachinery, `${found.length}\n${found.map(shown).join('\n')}`);
});

test('no file leads back to itself through imports of values', t => {
	const reached = new Map<string, Set<string>>();
	for (const {from, to} of imports.filter(({isType}) => !isType)) {
		reached.set(from, (reached.get(from) ?? new Set()).add(to));
	}
	const circles: string[] = [];
	for (const start of reached.keys()) {
		const seen = new Set<string>();
		const stack = [...(reached.get(start) ?? [])];
		for (let file = stack.pop(); file !== undefined; file = stack.pop()) {
			if (file === start) {
				circles.push(start);
				break;
			}
			if (!seen.has(file)) {
				seen.add(file);
				stack.push(...(reached.get(file) ?? []));
			}
		}
	}
	t.deepEqual(circles, []);
});

test('a migration imports nothing of src, whose code changes', t => {
	t.deepEqual(
		filesOf('migrations')
			.flatMap(importsOf)
			.filter(({to}) => to.startsWith('src/')),
		[],
	);
});

test('docs/internals/flow.md names files and folders that are there', t => {
	const names = [...readFileSync('docs/internals/flow.md', 'utf8').matchAll(/`([\w/-]+(?:\.ts|\/))`/g)].map(
		([, name]) => `${name}`,
	);
	const paths = readdirSync('src', {recursive: true, encoding: 'utf8'});
	const isThere = (name: string) =>
		name === 'src/' || paths.some(one => `/${one}${name.endsWith('/') ? '/' : ''}`.endsWith(`/${name}`));
	t.true(names.length > 50);
	t.deepEqual(
		names.filter(name => !isThere(name)),
		[],
	);
});

for (const folder of ['flow', 'slow']) {
	test(`test/${folder}/README.md names each test of its folder`, t => {
		const named = [...readFileSync(`test/${folder}/README.md`, 'utf8').matchAll(/^\| `([\w/-]+)` \|/gm)].map(
			([, name]) => name,
		);
		const tests = readdirSync(`test/${folder}`, {recursive: true, encoding: 'utf8'})
			.filter(file => file.endsWith('.test.ts'))
			.map(file => file.replace('.test.ts', ''));
		t.deepEqual(named.toSorted(), tests.toSorted());
	});
}

test('SQL is in src/store and in files named store.ts: nothing else imports knex or a driver, but for its types', t => {
	const offenders = filesOf('src')
		.filter(file => folderOf(file) !== 'store' && !isStore(file))
		.filter(file => /^import (?!type )[^;]*from '(knex|sqlite3|pg)'/m.test(readFileSync(file, 'utf8')));
	t.deepEqual(offenders, []);
});

test('the daemon takes mails apart in threads only: those of strangers may be large and hostile', t => {
	const readers = [
		'src/inbound/reports/read-report.ts',
		'src/inbound/reports/read-inbound.ts',
		'src/inbound/reports/verdicts.ts',
		'src/inbound/reports/signatures.ts',
		'src/dashboard/seen-mail.ts',
	];
	const users = folders
		.flatMap(folder => filesOf(`src/${folder}`))
		.filter(file => {
			const values = readFileSync(file, 'utf8').replaceAll(/^import type [^;]*;$/gm, '');
			return readers.some(reader => new RegExp(`from '[./\\w-]*/${path.basename(reader)}'`).test(values));
		});
	t.deepEqual(
		users.toSorted().filter(file => !/^src\/inbound\/reports\/|-?cli\.ts$/.test(file)),
		['src/daemon/threads/reader.ts', 'src/dashboard/look-worker.ts'],
	);
});

test('every recipient state is reachable from accepted', t => {
	const reached = new Set<RecipientState>(['accepted']);
	for (const state of reached) {
		for (const next of nextStates[state]) {
			reached.add(next);
		}
	}
	t.deepEqual([...reached].toSorted(), Object.keys(nextStates).toSorted());
});
