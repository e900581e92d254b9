import test from 'ava';
import {readCheckpoint, saveCheckpoint} from '../../../src/resources/received/mailbox-store.ts';
import {storeTest} from '../../helpers/databases.ts';

storeTest(test, 'each mailbox has its own checkpoint, the last one saved', async (t, {reader, writer}) => {
	const at = '2026-11-20T10:00:00.000Z';
	const save = (mailbox: string, position: string) =>
		writer.transaction(trx => saveCheckpoint(trx, {mailbox, position, at}));
	t.is(await readCheckpoint(reader, 'imaps://a@x.example/INBOX'), null);
	await save('imaps://a@x.example/INBOX', '7:1');
	await save('mbox:/var/mail/bounces', '{}');
	await save('imaps://a@x.example/INBOX', '7:2');
	t.is(await readCheckpoint(reader, 'imaps://a@x.example/INBOX'), '7:2');
	t.is(await readCheckpoint(reader, 'mbox:/var/mail/bounces'), '{}');
});
