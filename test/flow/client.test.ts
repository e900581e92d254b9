import {execFile} from 'node:child_process';
import {readFileSync, rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test from 'ava';
import {Mailctl, type MailctlError} from 'mailctl/client';
import {prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {waitFor} from '../helpers/wait.ts';

const run = promisify(execFile);

/** The example of docs/guide/client.md that bears this name. */
function exampleOf(name: string): string {
	const page = readFileSync('docs/guide/client.md', 'utf8');
	return new RegExp(`<!-- test: ${name} -->\n\`\`\`\\w+\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] ?? '';
}

test('a first mail by the client and by the examples of its page, until it is delivered', async t => {
	const program = await prepareProgram(t, {});
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const client = new Mailctl({baseUrl: daemon.url, apiKey: key});

	const {id} = await client.messages.send({from, to: 'one@example.org', templateId, data: {name: 'Ada'}});
	await waitFor('the mail to be delivered', async () => (await client.messages.get(id)).status === 'delivered');
	const types: string[] = [];
	for await (const {type} of client.messages.events(id)) {
		types.push(type);
	}
	t.is(types[0], 'accepted');
	t.is(types.at(-1), 'delivered');

	const environment = {...process.env, API_URL: daemon.url, API_KEY: key, TEMPLATE: templateId};
	// Inside of the project: there `mailctl/client` is what the package exports.
	const file = path.join('dist', `client-example-${process.pid}.mjs`);
	t.teardown(() => rmSync(file, {force: true}));
	writeFileSync(file, exampleOf('send.mjs'));
	for (const runs of [1, 2]) {
		const {stdout} = await run(process.execPath, [file], {env: environment});
		const [sent, ...listed] = stdout.trim().split('\n');
		t.is(listed.length, 1, `its key makes one message in ${runs} runs`);
		t.true(listed[0]?.startsWith(`${sent} `));
	}
	await client.suppressions.create({recipient: 'ada@example.org'});
	writeFileSync(file, exampleOf('send.mjs').replace('order-1042', 'order-1043'));
	t.regex((await run(process.execPath, [file], {env: environment})).stdout, /^Ada wants no mail\.\n/);
});

test('the client in Python sends, lists and says what is wrong', async t => {
	const program = await prepareProgram(t, {});
	const daemon = await program.serve();
	const {key, from, templateId} = await welcomeOf(program);
	const main = `
import sys
base, key, sender, template = sys.argv[1:]
client = Mailctl(base, key)
ids = [client.send(**{"from": sender}, to="ada@example.org", templateId=template, data={"n": n})["id"] for n in range(3)]
same = {client.send("order-7", **{"from": sender}, to="bob@example.org", templateId=template)["id"] for _ in range(2)}
listed = [one["id"] for one in client.list("/v1/messages", recipient="ada@example.org", limit=2)]
errors = []
for wrong in (lambda: client.send(to="x"), lambda: Mailctl(base, "key_live_no").call("GET", "/v1/usage"), lambda: Mailctl("http://127.0.0.1:1", "k", 0).call("GET", "/")):
    try:
        wrong()
    except MailctlError as error:
        errors.append([error.status, error.code, len(error.violations)])
print(json.dumps([listed == ids[::-1], len(same), errors]))
`;
	const file = path.join(program.folder, 'mailctl.py');
	writeFileSync(file, exampleOf('mailctl.py') + main);
	const made = await run('python3', [file, daemon.url, key, from, templateId]).catch(
		(error: NodeJS.ErrnoException) => error,
	);
	if ('code' in made && made.code === 'ENOENT') {
		notRunHere(t, 'there is no python3');
		return;
	}
	const {violations} = (await new Mailctl({baseUrl: daemon.url, apiKey: key}).messages
		.send({to: 'x'} as never)
		.catch((error: MailctlError) => error as MailctlError & {id: string})) as MailctlError;
	t.deepEqual(JSON.parse((made as {stdout: string}).stdout), [
		true,
		1,
		[
			[422, 'validation_failed', violations.length],
			[401, 'unauthorized', 0],
			[0, 'no_answer', 0],
		],
	]);
});
