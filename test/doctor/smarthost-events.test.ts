import test from 'ava';
import {smarthostEventsCheck} from '../../src/doctor/outbound.ts';
import {dayMs, hourMs, storeTime} from '../../src/kit/time.ts';
import {reportingProviders} from '../../src/mail/provider.ts';
import {findSmarthost, insertSmarthost, smarthostNoteWrite} from '../../src/resources/smarthosts/store.ts';
import {createWorkspace} from '../../src/resources/workspaces/rules.ts';
import {storeTest} from '../helpers/databases.ts';
import {testTools} from '../helpers/tools.ts';

storeTest(test, 'warns about a relay that accepted messages but reported on none of them', async (t, store) => {
	const tools = testTools();
	let now = Date.parse('2026-06-09T10:00:00Z');
	const look = async () => {
		const found = await smarthostEventsCheck(store.reader, {now: () => now}).run();
		return found.map(({status, detail}) => `${status} ${detail}`);
	};
	t.deepEqual(await look(), ['warn no provider is set up to post its events here']);

	const workspace = await store.writer.transaction(trx => createWorkspace(trx, tools, {name: 'shop'}));
	const shop = workspace?.id ?? '';
	const add = (id: string, provider: 'ses' | 'postmark' | 'generic', workspace_id: string | null = null) =>
		store.writer.transaction(trx =>
			insertSmarthost(trx, {
				...{id, workspace_id, provider, token_hash: id, secret: null, topic: null, takes: []},
				...{last_event_at: null, created_at: storeTime(now)},
			}),
		);
	await add('smh_1', 'ses');
	await add('smh_2', 'postmark');
	await add('smh_3', 'ses', shop);
	await add('smh_4', 'generic');
	const use = (host: string, workspaceId = shop) =>
		store.writer.submit(smarthostNoteWrite, {
			...{workspaceId, providers: reportingProviders(host), at: storeTime(now)},
		});
	const event = (id: string) => store.writer.submit(smarthostNoteWrite, {id, at: storeTime(now)});
	const silent = async () => (await look()).map(line => line.startsWith('warn'));

	now += 9 * dayMs;
	t.deepEqual(await silent(), [false, false, false, false], 'nobody used them');
	await use('email-smtp.eu-west-1.amazonaws.com', 'ws_other');
	now += dayMs + 1;
	t.deepEqual(await silent(), [false, false, false, true], 'the one of all workspaces, newest first');
	t.is(
		(await look())[3],
		'warn ses posted no event about messages sent since 2026-06-18T10:00 UTC; it has never posted one',
	);

	await event('smh_1');
	t.deepEqual(await silent(), [false, false, false, false]);
	now += hourMs / 2;
	await use('email-smtp.eu-west-1.amazonaws.com');
	t.like(
		await findSmarthost(store.reader, null, 'smh_1'),
		{unreported_since: null},
		'the event may be of this message',
	);
	t.like(await findSmarthost(store.reader, null, 'smh_3'), {unreported_since: storeTime(now)});
	now += hourMs;
	const since = storeTime(now);
	await use('email.eu-west-1.amazonaws.com');
	now += dayMs;
	await use('email.eu-west-1.amazonaws.com');
	t.like(await findSmarthost(store.reader, null, 'smh_1'), {unreported_since: since, used_at: storeTime(now)});
	now += 1;
	t.deepEqual(await silent(), [false, true, false, true]);
	now += 7 * dayMs;
	t.deepEqual(await silent(), [false, false, false, false], 'they are no longer in use');

	await use('mail.internal');
	now += dayMs + 1;
	t.deepEqual(await silent(), [true, true, true, true], 'a relay of one’s own may hand mail to any of them');
});
