import test from 'ava';
import {systemClock} from '../../../src/kit/clock.ts';
import {createClaimWrite} from '../../../src/store/queue/claims.ts';
import {storeTest} from '../../helpers/databases.ts';
import {insertMessages, insertWorkspace, newId} from '../../helpers/messages.ts';

storeTest(test, 'a claimed recipient has the data of its rows, byte for byte', async (t, store, engine) => {
	const {workspaceId} = await insertWorkspace(store);
	await insertMessages(store, workspaceId, ['one@a.test']);
	// PostgreSQL's text holds no NUL.
	const odd = `"quoted" \\ \t\r\n\u0001\u2028 é 👍 {"a":[1]}${engine === 'sqlite' ? ' \0 behind it' : ''}`;
	const recipient = {attempts: 2, crashes: 1, last_reply: odd, last_category: 'network', subject: ''};
	const message = {
		data: JSON.stringify({odd}),
		extras: odd,
		sealed: '',
		attachments: 2,
		topic_code: 'news',
		cc: '[]',
	};
	await store.database('recipients').update(recipient);
	await store.database('messages').update(message);
	await store.database('workspaces').update({queue_lifetime_s: 3600, locale: 'de'});
	const write = createClaimWrite({dialect: store.dialect, boot: newId('req'), newId, clock: systemClock});
	const queue = {destination: 'a.test', workspaceId, limit: 10, newestFirst: false, lastsMs: 60_000};
	const [claimed] = await store.writer.transaction(trx =>
		write.apply(trx, [{...queue, asksNext: false, warmUp: null}]),
	);
	t.is(claimed?.recipients.length, 1);
	const stored = {...recipient, ...message, queue_lifetime_s: 3600, workspace_locale: 'de', sender_name: 'Shop'};
	t.like(claimed?.recipients[0], {
		...stored,
		stop: null,
		workspace_id: workspaceId,
		address: 'one@a.test',
		sent_at: null,
	});
});
