import {existsSync, readFileSync} from 'node:fs';
import test from 'ava';

const page = readFileSync('docs/reference/durability.md', 'utf8');
const proofs = [...page.matchAll(/^- `(test\/[^`]+)`: (.+)$/gm)].map(([, file = '', title = '']) => ({file, title}));

test('docs/reference/durability.md names tests that exist', t => {
	t.true(proofs.length > 30);
	// A title in backquotes may end with the engine.
	const spelled = (title: string) => [`'${title}'`, `\`${title}\``, `\`${title} ($`];
	const isThere = ({file, title}: {file: string; title: string}) =>
		existsSync(file) && spelled(title).some(text => readFileSync(file, 'utf8').includes(text));
	t.deepEqual(
		proofs.filter(proof => !isThere(proof)),
		[],
	);
});

test('each promise of docs/reference/durability.md has its proof', t => {
	const promised = page.slice(0, page.indexOf('## What is not promised'));
	const unproven = promised.split(/\n(?=\*\*)/).filter(part => part.startsWith('**') && !part.includes('\n- `test/'));
	t.deepEqual(unproven, []);
});

test('docs/reference/security.md names files that exist', t => {
	const names = [
		...readFileSync('docs/reference/security.md', 'utf8').matchAll(/`((?:test|src|config)\/[^`*]+)`/g),
	].map(([, name = '']) => name);
	t.true(names.length > 30);
	t.deepEqual(
		names.filter(name => !existsSync(name)),
		[],
	);
});
