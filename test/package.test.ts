import {execFileSync} from 'node:child_process';
import {readdirSync} from 'node:fs';
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
