import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {visitorOf} from '../helpers/dashboard.ts';
import {startMx} from '../helpers/delivering-to.ts';
import type {FakeMx} from '../helpers/fake-mx.ts';
import {multipartOf} from '../helpers/report-mails.ts';
import {serviceOf, type Workspace} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

let host: FakeMx | null = null;
const service = serviceOf(test, {
	workspaces: {shop: []},
	async settings(scope) {
		const answer = '452-4.2.2 Mailbox full \u202e<b>\n452 4.2.2 or so';
		const {mx, settings} = await startMx(scope, {rcpt: line => (line.includes('<full@') ? answer : undefined)});
		host = mx;
		return settings;
	},
});

async function sent(to: string): Promise<string> {
	const {live, from, templates} = service().workspaces.shop as Workspace;
	const send = {from, to, templateId: templates.plain, data: {name: 'Ann'}};
	return (await live.post<{id: string}>('/v1/messages', send)).body.id;
}

test('a message that waits: why, and the conversation of its try', async t => {
	const id = await sent('full@a.example');
	const viewer = await visitorOf(service(), 'viewer');
	const {text} = await waitFor('a try', async () => {
		const page = await viewer.get(`/messages/${id}`);
		return page.text.includes('Try 1') && page;
	});
	t.true(text.includes('Why it waits'));
	t.regex(text, /for attempt 2: attempt 1 was deferred \(mailbox_full\) by mx\.example/);
	t.true(text.includes('/queue/a.example'));
	t.regex(text, /C: RCPT TO:&lt;full@a\.example&gt;/);
	t.true(text.includes('4.2.2 or so'), 'the reply in full');
	t.notRegex(text, /<b>|\u202e/, 'nothing of it is markup, nor turns the page round');
	t.regex(text, /hx-get="\/messages\/msg_\w+" hx-trigger="mail from:body/, 'it follows what happens');

	const preview = await viewer.get(`/messages/${id}/preview`);
	t.true(preview.text.includes('Made again from the template'));
	t.regex((await viewer.get(`/messages/${id}/frame`)).text, /Hello Ann/);
});

test('what came back is told with how it was read', async t => {
	const {program} = service();
	const id = await sent('moved@a.example');
	const {from} = await waitFor('the mail', () => host?.received.find(({to}) => to.includes('moved@a.example')));
	const status =
		'Final-Recipient: rfc822; moved@a.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 No such user here';
	const bounce = multipartOf({
		header: [`Delivered-To: ${from}`],
		parts: [
			'Content-Type: text/plain\n\nSorry.\n',
			`Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\n${status}\n`,
		],
	});
	const file = join(program.folder, 'bounce.eml');
	await writeFile(file, bounce);
	await program.cli('bounce', 'ingest', file);
	const viewer = await visitorOf(service(), 'viewer');
	const {text} = await viewer.get(`/messages/${id}`);
	t.regex(text, /Came back: <bdi>failed \(DSN\), 5\.1\.1/);
	t.regex(text, /by rule /);
	t.true(text.includes('550 5.1.1 No such user here'));
	t.true(text.includes('bounced'));
	t.false(text.includes('hx-trigger="mail from:body'), 'nothing of it changes by itself any more');
});
