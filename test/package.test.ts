import {execFileSync} from 'node:child_process';
import {readdirSync, readFileSync} from 'node:fs';
import {isBuiltin} from 'node:module';
import test from 'ava';

type Packed = ReadonlyArray<{readonly files: ReadonlyArray<{readonly path: string}>}>;

test('the package has the program and its configuration, and nothing else', t => {
	const answer = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
		encoding: 'utf8',
		stdio: ['ignore', 'pipe', 'ignore'],
	});
	const paths = (JSON.parse(answer) as Packed).flatMap(({files}) => files.map(file => file.path));
	t.deepEqual(
		paths.filter(
			file =>
				!/^(LICENSE|README\.md|package\.json|docs\/reference\/mailctl\.1|(bin|config|dist\/bundle|dist\/client)\/.+)$/.test(
					file,
				),
		),
		[],
	);
	const needed = ['bin', 'config'].flatMap(folder =>
		readdirSync(folder, {recursive: true, withFileTypes: true})
			.filter(entry => entry.isFile())
			.map(entry => `${entry.parentPath}/${entry.name}`),
	);
	t.deepEqual(
		needed.filter(file => !paths.includes(file)),
		[],
	);
});

test('what the program imports is a dependency, so that audits see it, and nothing else is', t => {
	const {dependencies} = JSON.parse(readFileSync('package.json', 'utf8')) as {dependencies: Record<string, string>};
	const sources = readdirSync('src', {recursive: true, encoding: 'utf8'}).filter(file => file.endsWith('.ts'));
	const imported = sources.flatMap(file =>
		[
			...readFileSync(`src/${file}`, 'utf8').matchAll(
				/^(?:import .*|\} )from '([^']+)';$|\bimport\('([^']+)'\)/gm,
			),
		].map(([, name, lazily]) => `${name ?? lazily}`),
	);
	const packages = imported
		.filter(name => !name.startsWith('.') && !isBuiltin(name))
		.map(name => /^(@[^/]+\/)?[^/]+/.exec(name)?.[0]);
	// The dashboard serves these two.
	t.deepEqual([...new Set([...packages, 'htmx.org', 'uplot'])].toSorted(), Object.keys(dependencies).toSorted());
});

/**
 * The first version of a library without the faults that are known and concern us: the newest fix of its advisories.
 */
const floors: Readonly<Record<string, string>> = {
	fastify: '5.12.2',
	knex: '2.4.0',
	'linkify-it': '5.0.2',
	liquidjs: '10.30.1',
	mailparser: '3.9.3',
	mjml: '5.1.0',
	nodemailer: '9.0.1',
	'smtp-server': '3.18.3',
	sqlite3: '6.0.0',
	undici: '7.29.0',
};

const isBelow = (version: string, floor: string) => version.localeCompare(floor, 'en', {numeric: true}) < 0;

test('no library is older than the fixes that concern us, also where another library brings it', t => {
	const {packages}: {packages: Record<string, {readonly version: string}>} = JSON.parse(
		readFileSync('package-lock.json', 'utf8'),
	);
	const installed = Object.entries(packages).map(([path, {version}]) => ({
		name: path.replace(/^.*node_modules\//, ''),
		path,
		version,
	}));
	for (const [name, floor] of Object.entries(floors)) {
		const copies = installed.filter(each => each.name === name);
		t.true(copies.length > 0, name);
		t.deepEqual(
			copies.filter(({version}) => isBelow(version, floor)),
			[],
			`${name} before ${floor}`,
		);
	}
});
