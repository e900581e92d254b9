import {execFile} from 'node:child_process';
import {chmodSync, mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test from 'ava';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {waitFor} from '../helpers/wait.ts';

const run = promisify(execFile);
const page = readFileSync('docs/guide/quick-start.md', 'utf8');
const examples = new Map(
	[...page.matchAll(/<!-- test: (\w+) -->\n```\w+\n([\s\S]*?)```/g)].map(([, name, text]) => [`${name}`, `${text}`]),
);
/** How each language runs a file; Go only where it is installed, since it takes 200 MB. */
const languages = [
	['sh', ['sh'], 'send.sh'],
	['node', [process.execPath], 'send.mjs'],
	['python3', ['python3'], 'send.py'],
	['php', ['php'], 'send.php'],
	['go', ['go', 'run'], 'send.go'],
] as const;

test('the quick start examples all send the same message, in every language', async t => {
	const program = await prepareProgram(t, {});
	const daemon = await program.serve();
	const {key, templateId} = await welcomeOf(program);
	const bin = path.join(program.folder, 'bin');
	mkdirSync(bin);
	const command = path.join(bin, 'mailctl');
	writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${path.resolve('bin/mailctl.js')}' "$@"\n`);
	chmodSync(command, 0o755);
	const env = {
		...program.environment.env,
		PATH: `${bin}:${process.env.PATH}`,
		API_URL: daemon.url,
		API_KEY: key,
		TEMPLATE: templateId,
		GOCACHE: path.join(program.folder, 'go'),
		GOFLAGS: '-mod=mod',
	};
	const ids = new Set<string>();
	const missing: string[] = [];
	for (const [name, [first, ...rest], file] of languages) {
		const script = path.join(program.folder, file);
		writeFileSync(script, examples.get(name) ?? '');
		try {
			const {stdout} = await run(first, [...rest, script], {env, cwd: program.folder});
			t.regex(stdout, /^msg_\w+\n?$/, name);
			ids.add(stdout.trim());
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
				throw error;
			}
			missing.push(name);
		}
	}
	t.deepEqual(examples.size, languages.length + 1);
	t.log(`not run here, as it is not installed: ${missing.join(', ') || 'none'}`);
	t.deepEqual(
		missing.filter(name => !['php', 'go'].includes(name)),
		[],
	);
	t.is(ids.size, 1);

	const [id = ''] = ids;
	const {stdout} = await waitFor('the mail to be delivered', async () => {
		const shown = await run('mailctl', ['message', 'show', id], {env, cwd: program.folder});
		return shown.stdout.includes('delivered') && shown;
	});
	t.regex(stdout, /ada@example\.org/);
	const after = await run('sh', ['-euc', examples.get('after') ?? 'false'], {
		env: {...env, ID: id},
		cwd: program.folder,
	});
	t.regex(after.stdout, /ada@example\.org/);
	t.regex(readFileSync(path.join(program.folder, 'first.eml'), 'utf8'), /^To: ada@example\.org\r$/m);
});
