import {execFileSync, spawnSync} from 'node:child_process';
import {randomBytes} from 'node:crypto';
import {mkdirSync, rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import test from 'ava';

// Inside the project, where `mailctl/client` resolves to the export of the package.
const folder = `dist/test-client-${randomBytes(6).toString('hex')}`;

test.before(() => {
	mkdirSync(folder);
});

test.after.always(() => {
	rmSync(folder, {recursive: true, force: true});
});

test('the package exports the client, which imports nothing but Node', t => {
	const program = `import {Mailctl, MailctlError, verifyWebhook} from 'mailctl/client';
const client = new Mailctl({baseUrl: 'http://127.0.0.1:1', apiKey: 'key_test_x', maxRetries: 0});
const error = await client.messages.get('msg_1').catch(error => error);
console.log(error instanceof MailctlError, error.code, typeof verifyWebhook);`;
	writeFileSync(path.join(folder, 'use.mjs'), program);
	t.is(
		execFileSync(process.execPath, [path.join(folder, 'use.mjs')], {encoding: 'utf8'}),
		'true no_answer function\n',
	);
});

/** Returns the errors of TypeScript for a program that uses the client. */
function compile(name: string, program: string): string {
	const file = path.join(folder, name);
	writeFileSync(
		file,
		`import {Mailctl} from 'mailctl/client';\nconst client = new Mailctl({baseUrl: '', apiKey: ''});\n${program}`,
	);
	const options =
		'--ignoreConfig --noEmit --strict --exactOptionalPropertyTypes --module nodenext --target es2023 --types node';
	const {stdout} = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', file, ...options.split(' ')], {
		encoding: 'utf8',
	});
	return stdout;
}

test('its types accept what the API accepts, and nothing else', t => {
	const send = `await client.messages.send({from: 'a@b.example', to: 'c@d.example', templateId: 'tpl_1', locale: undefined});\n`;
	t.is(
		compile(
			'good.mts',
			`${send}for await (const {subject} of client.messages.list()) console.log(subject?.length);`,
		),
		'',
	);
	t.regex(compile('bad.mts', `${send.replace('to:', 'too:')}`), /too/);
	t.regex(
		compile('odd.mts', `const n: number = (await client.messages.get('msg_1')).subject;`),
		/not assignable to type 'number'/,
	);
});
