import {mkdir, readdir, readFile, rm, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import type {Program} from '../helpers/daemon.ts';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const code = 'Q7-941-ZK';

/** The places of the code, or of an encoding of it that messages and databases may use. */
async function foundIn(folder: string, code: string): Promise<string[]> {
	const forms = [
		...[0, 1, 2].map(shift =>
			Buffer.from(' '.repeat(shift) + code)
				.toString('base64')
				.slice(shift === 0 ? 0 : 4, -4),
		),
		...[code, Buffer.from(code).toString('hex'), code.replaceAll('-', '=2D')],
	];
	const found: string[] = [];
	for (const entry of await readdir(folder, {recursive: true, withFileTypes: true})) {
		if (entry.isFile()) {
			const file = join(entry.parentPath, entry.name);
			const bytes = await readFile(file);
			found.push(...forms.filter(form => bytes.includes(form)).map(form => `${file}: ${form}`));
		}
	}
	return found;
}

async function pushCode(program: Program): Promise<string> {
	const folder = join(program.folder, 'templates/code');
	await mkdir(folder, {recursive: true});
	const settings = {subject: 'Your code {{ code }}', sensitive: ['code', 'login.link']};
	await writeFile(join(folder, 'template.json'), JSON.stringify(settings));
	await writeFile(join(folder, 'body.html'), '<p>{{ name }}: {{ code }} or <a href="{{ login.link }}">this</a></p>');
	const [saved] = await program.cli<Array<{id: string}>>('template', 'push', 'templates', '--workspace', 'default');
	return saved?.id ?? '';
}

/** A DSN (RFC 3464) whose text quotes the message. */
function failureReport(returnPath: string, diagnostic: string): string {
	const lines = [
		...['From: MAILER-DAEMON@mx.good.example', `To: ${returnPath}`, 'Subject: Report', 'MIME-Version: 1.0'],
		...['Content-Type: multipart/report; report-type=delivery-status; boundary="b"', '', '--b', '', 'Failed.', ''],
		...['--b', 'Content-Type: message/delivery-status', '', 'Reporting-MTA: dns; mx.good.example', ''],
		...['Final-Recipient: rfc822; ada@good.example', 'Action: failed', 'Status: 5.7.1'],
		...[`Diagnostic-Code: smtp; ${diagnostic}`, '', '--b--', ''],
	];
	return lines.join('\r\n');
}

const data = {name: 'Ada', code, login: {link: `https://shop.example/${code}`, device: 'Nokia 3310'}};
const hidden = {name: 'Ada', code: '•••', login: {link: '•••', device: 'Nokia 3310'}};

test('removes a sensitive code once the last recipient is delivered; captured files never have it', async t => {
	const {program, host} = await startMailHosts(
		t,
		{
			'mx.good.example': {},
			'mx.late.example': {rcpt: [`452 4.2.2 mailbox full, not for ${code}`]},
			'mx.slow.example': {rcpt: ['452 4.2.2 later', '452 4.2.2 later']},
			'mx.no.example': {dot: `550-5.1.1 no such user for q7-94\r\n550 5.1.1 1-zk or ${code}`},
		},
		{},
		{MAILCTL_RETRY_SCHEDULE: '1s*', MAILCTL_SWEEP_INTERVAL: '200ms', MAILCTL_LOG_LEVEL: 'debug'},
	);
	const daemon = await program.serve();
	const client = await clientOf(program, daemon);
	await program.cli('workspace', 'update', 'default', '--track-opens', '--track-clicks');
	const templateId = await pushCode(program);
	const send = (to: string) => client.send(to, {templateId, data});
	const [good, late, bounced] = [
		await send('ada@good.example'),
		await send('ada@late.example'),
		await send('ada@no.example'),
	];
	await client.until(good, 'delivered');
	await client.until(late, 'delivered');
	await client.until(bounced, 'bounced');
	for (const name of ['good', 'late']) {
		const mail = host(`mx.${name}.example`).received[0]?.data.toString('latin1') ?? '';
		t.true(mail.includes(`Subject: Your code ${code}`), name);
		t.true(mail.includes(`href=3D"https://shop.example/${code}"`), name);
		t.true(mail.includes('/t/o/'), name);
	}

	const {key} = client.shop;
	const read = async (path: string) => (await call(`${daemon.url}${path}`, key)).body as Record<string, unknown>;
	t.like(await read(`/v1/messages/${good}`), {data: hidden, subject: 'Your code •••'});
	t.like(await read(`/v1/messages/${good}/content`), {subject: 'Your code •••'});
	t.deepEqual(((await read('/v1/messages?q=code')).data as unknown[]).length, 3);
	const again = await call(`${daemon.url}/v1/messages/${good}/resend`, key, {});
	t.is(again.status, 422);
	t.like(again.body, {error: {code: 'content_removed'}});
	t.is((await program.run('message', 'resend', good)).code, 65);
	t.true((await program.cliBytes('message', 'raw', good)).toString().includes('=E2=80=A2=E2=80=A2=E2=80=A2'));

	const copied = await client.send('ada@good.example', {templateId, data, cc: ['bob@slow.example']});
	await client.until(copied, 'delivered');
	await waitFor('the other copy', () => host('mx.slow.example').received.length === 1);
	t.true(host('mx.slow.example').received[0]?.data.toString('latin1').includes(code));
	await waitFor('it is recorded', async () =>
		(await client.show(copied)).recipients.every(({state}) => state === 'delivered'),
	);

	await program.cli('backup', join(program.folder, 'backup.tar'));
	t.deepEqual(await foundIn(program.folder, code), []);
	// What is kept is found so.
	t.true((await foundIn(program.folder, data.login.device)).length > 1);
	t.false((await program.log()).includes(code));
	const {recipients} = await client.show(bounced);
	t.is(recipients[0]?.attempts[0]?.reply, '5.1.1 no such user for ••• or •••');

	const returnPath = host('mx.good.example').received[0]?.from ?? '';
	const report = join(program.folder, 'report.eml');
	await writeFile(report, failureReport(returnPath, `550 5.7.1 ${code} is spam`));
	await program.cli('bounce', 'ingest', report);
	await rm(report);
	await client.until(good, 'bounced');
	const shown = JSON.stringify(await client.show(good));
	t.true(shown.includes('550 5.7.1 •••'), shown);
	t.false(shown.includes(code));
	const {rows} = await program.cli<{rows: unknown[]}>('stats', '--days', '1');
	t.is(rows.length, 1);
	t.is(await daemon.stop(), 0);

	const capturing = await program.serve({MAILCTL_DELIVERY: 'capture'});
	const captured = await clientOf(program, capturing);
	const kept = await captured.send('ada@good.example', {templateId, data});
	await captured.until(kept, 'delivered');
	t.deepEqual(await foundIn(program.folder, code), []);
	t.is(await capturing.stop(), 0);
});
