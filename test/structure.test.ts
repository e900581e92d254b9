import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {nextStates, type RecipientState} from '../src/mail/message.ts';

/**
 * Which folders of src a folder may import, besides itself. Steps know nothing of the store, edges are thin. Where only
 * some files of a folder are meant, they are named: a command works beside the daemon, so it takes from it what needs
 * none.
 */
const mayImport: Record<string, readonly string[] | 'everything'> = {
	kit: [],
	net: [],
	mail: ['kit', 'net'],
	links: ['mail'],
	render: ['kit', 'mail'],
	compose: ['kit', 'mail'],
	dns: ['kit', 'net'],
	bounce: ['kit', 'mail'],
	report: ['kit', 'mail', 'net', 'bounce'],
	providers: ['kit', 'mail', 'net', 'report'],
	deliver: ['kit', 'mail', 'net'],
	config: ['kit', 'mail', 'net', 'pace', 'bounce'],
	log: ['kit'],
	store: ['kit', 'mail'],
	reputation: ['kit', 'mail', 'store'],
	users: ['kit', 'mail', 'net', 'store'],
	accept: ['kit', 'mail', 'store'],
	outcome: ['kit', 'mail', 'store'],
	pace: ['kit', 'mail', 'net'],
	pool: ['kit'],
	queue: ['kit', 'mail', 'store', 'outcome', 'pace', 'pool'],
	cluster: ['kit', 'mail', 'store', 'pace', 'queue'],
	domains: [
		'kit',
		'mail',
		'net',
		'store',
		'outcome',
		'compose',
		'mta-sts',
		'config/derive.ts',
		'ops/limits.ts',
		'ops/operation.ts',
	],
	admin: ['ops', 'kit', 'mail', 'store', 'outcome', 'domains', 'compose', 'render', 'users', 'report'],
	ops: ['kit', 'mail', 'store', 'outcome', 'providers'],
	declared: [
		'ops',
		'kit',
		'mail',
		'store',
		'compose',
		'domains',
		'admin',
		'config/parsers.ts',
		'api/validate.ts',
		'api/schemas',
	],
	webhook: ['kit', 'mail', 'net', 'store', 'outcome', 'pool'],
	certificates: ['kit', 'net', 'store'],
	inbound: ['kit', 'mail', 'net', 'store', 'links', 'outcome', 'config', 'pool', 'providers'],
	threads: [
		'providers',
		'kit',
		'mail',
		'net',
		'store',
		'accept',
		'outcome',
		'links',
		'render',
		'compose',
		'dns',
		'bounce',
		'report',
		'deliver',
		'pool',
		'queue',
		'webhook',
		'inbound',
	],
	'mta-sts': ['kit', 'mail', 'net', 'store'],
	'data-folder': ['kit', 'mail', 'store', 'config'],
	backup: ['kit', 'mail', 'store', 'config', 'data-folder'],
	routing: ['kit', 'mail', 'net', 'store', 'config', 'mta-sts', 'pace'],
	doctor: [
		'certificates',
		'kit',
		'mail',
		'net',
		'store',
		'config',
		'domains',
		'deliver',
		'inbound/mail-files.ts',
		'inbound/imap-folder.ts',
		'inbound/mailboxes.ts',
		'data-folder',
		'dns',
		'links',
	],
	alerts: ['kit', 'mail', 'net', 'store', 'config', 'data-folder', 'doctor', 'webhook/post.ts'],
	bench: 'everything',
	api: [
		'ops',
		'kit',
		'mail',
		'net',
		'store',
		'accept',
		'outcome',
		'webhook',
		'domains',
		'admin',
		'render',
		'providers',
	],
	submission: [
		'kit',
		'mail',
		'store',
		'accept',
		'compose/repair-field.ts',
		'compose/seven-bit.ts',
		'report/decode.ts',
		'api/caller.ts',
		'api/turns.ts',
		'inbound/allowances.ts',
		'inbound/guarded-server.ts',
		'inbound/smtp-listener.ts',
	],
	hosted: ['kit', 'mail', 'store', 'outcome', 'links', 'api', 'providers', 'mta-sts/own-policy.ts'],
	dashboard: [
		'ops',
		'providers',
		'kit',
		'mail',
		'net',
		'store',
		'config',
		'accept',
		'bounce',
		'report',
		'render',
		'pace',
		'reputation',
		'domains',
		'admin',
		'users',
		'doctor',
		'api',
		'data-folder',
		'certificates/renewal.ts',
		'links/rewrite.ts',
		'hosted/html.ts',
		'queue/site.ts',
		'webhook/address-guard.ts',
	],
	cli: [
		'certificates',
		'ops',
		'kit',
		'mail',
		'net',
		'store',
		'config',
		'domains',
		'admin',
		'declared',
		'bounce',
		'compose',
		'deliver',
		'dns',
		'inbound',
		'links',
		'outcome',
		'pace',
		'render',
		'providers',
		'report',
		'reputation',
		'users',
		'webhook',
		'doctor',
		'bench',
		'backup',
		'api/views.ts',
		'daemon/alerts.ts',
		'daemon/recipient-mails.ts',
		'daemon/run.ts',
		'daemon/webhook-posting.ts',
		'data-folder',
		'routing',
	],
	daemon: 'everything',
	client: [],
};

function filesOf(folder: string): string[] {
	return readdirSync(folder, {recursive: true, encoding: 'utf8'})
		.filter(file => file.endsWith('.ts'))
		.map(file => path.join(folder, file));
}

/** The modules that a file imports, relative ones as paths from the project's root. */
function importsOf(file: string): string[] {
	const text = readFileSync(file, 'utf8');
	return [...text.matchAll(/^(?:import|export)\b[^'"]*?from '([^']+)'|\bimport\('([^']+)'\)/gm)].map(match => {
		const target = (match[1] ?? match[2]) as string;
		return target.startsWith('.') ? path.join(path.dirname(file), target) : target;
	});
}

const folders = readdirSync('src', {withFileTypes: true})
	.filter(entry => entry.isDirectory())
	.map(entry => entry.name);

test('every folder of src has its place in the import order', t => {
	t.deepEqual(folders.toSorted(), Object.keys(mayImport).toSorted());
});

for (const [folder, allowed] of Object.entries(mayImport)) {
	if (allowed === 'everything') {
		continue;
	}
	test(`src/${folder} imports only itself${allowed.map(name => `, ${name}`).join('')}`, t => {
		const imports = filesOf(`src/${folder}`).flatMap(file =>
			importsOf(file)
				.filter(target => target.startsWith('src/') && target.split('/')[1] !== folder)
				.map(target => ({file, target})),
		);
		const isOf = (target: string, name: string) => target === `src/${name}` || target.startsWith(`src/${name}/`);
		const foreign = imports.filter(({target}) => !allowed.some(name => isOf(target, name)));
		t.deepEqual(
			foreign.map(({file, target}) => `${file} → ${target}`),
			[],
		);
		t.deepEqual(
			allowed.filter(name => !imports.some(({target}) => isOf(target, name))),
			[],
			'it may import what it has no use for',
		);
	});
}

test('no folder of src leads back to itself through others', t => {
	const reached = new Map(
		folders.map(folder => [
			folder,
			new Set(
				filesOf(`src/${folder}`)
					.flatMap(importsOf)
					.filter(target => target.startsWith('src/'))
					.map(target => `${target.split('/')[1]}`)
					.filter(target => target !== folder),
			),
		]),
	);
	for (const targets of reached.values()) {
		for (const target of targets) {
			reached.get(target)?.forEach(next => {
				targets.add(next);
			});
		}
	}
	t.true(reached.get('cli')?.has('store'));
	t.deepEqual(
		folders.filter(folder => reached.get(folder)?.has(folder)),
		[],
	);
});

test('a migration imports nothing of src, whose code changes', t => {
	t.deepEqual(
		filesOf('migrations')
			.flatMap(importsOf)
			.filter(target => target.startsWith('src/')),
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

test('only the store speaks SQL: nothing else imports knex or a driver, but for its types', t => {
	const offenders = folders
		.filter(folder => folder !== 'store')
		.flatMap(folder => filesOf(`src/${folder}`))
		.filter(file => /^import (?!type )[^;]*from '(knex|sqlite3|pg)'/m.test(readFileSync(file, 'utf8')));
	t.deepEqual(offenders, []);
});

test('the daemon takes mails apart in threads only: those of strangers may be large and hostile', t => {
	const readers = [
		...['src/inbound/reports/read-report.ts', 'src/inbound/reports/read-inbound.ts', 'src/inbound/reports/verdicts.ts'],
		...['src/inbound/reports/signatures.ts', 'src/dashboard/seen-mail.ts'],
	];
	const users = folders
		.flatMap(folder => filesOf(`src/${folder}`))
		.filter(file => {
			const values = readFileSync(file, 'utf8').replaceAll(/^import type [^;]*;$/gm, '');
			return readers.some(reader => new RegExp(`from '[./\\w-]*/${path.basename(reader)}'`).test(values));
		});
	t.deepEqual(
		users.filter(file => !/^src\/(?:cli|report)\//.test(file)),
		['src/dashboard/look-worker.ts', 'src/daemon/threads/reader.ts'],
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
