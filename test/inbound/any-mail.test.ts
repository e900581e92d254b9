import test from 'ava';
import fc from 'fast-check';
import {createReading, createRecord, createTrustedReporter} from '../../src/inbound/reading.ts';
import {createTakeIn} from '../../src/inbound/take-in.ts';
import {readReport} from '../../src/report/read-report.ts';
import {countUnread} from '../../src/store/inbound-mails.ts';
import {classify} from '../helpers/classify.ts';
import {storeTest} from '../helpers/databases.ts';
import {evilMail} from '../helpers/evil-mails.ts';
import {eventWriter} from '../helpers/messages.ts';
import {links, mailed, returnPath} from '../helpers/reports.ts';

const clock = {now: () => Date.now()};

storeTest(test, 'whatever comes to a return path is read and recorded; nothing stops the loop', async (t, store) => {
	const mail = await mailed(store);
	const faults: unknown[] = [];
	const record = createRecord({
		...{writer: store.writer, links, eventWriter, clock, retentionDays: () => 90},
		trustedReporter: createTrustedReporter({reporters: [], resolver: {txt: async () => ({kind: 'none'}) as never}}),
	});
	const reading = createReading({
		...{store, node: 'req_a', alone: true, clock},
		read: async raw => readReport(raw, classify),
		record: async (cameIn, read, raw) => void (await record(cameIn, read, raw)),
		observer: {
			inboundUnreadable: (_, error) => faults.push(error),
			storeFailed: error => faults.push(error),
		},
	});
	t.teardown(() => reading.stop());
	const takeIn = createTakeIn({writer: store.writer, node: 'req_a', clock});
	const rcptTo = [`${returnPath(mail.to)}@bounces.shop.example`];
	await fc.assert(
		fc.asyncProperty(fc.array(evilMail, {minLength: 30, maxLength: 30}), async mails => {
			await Promise.all(mails.map(raw => takeIn({raw, source: 'smtp', mailFrom: '\0', rcptTo})));
			reading.wake();
			await reading.idle();
			t.deepEqual(faults.splice(0), []);
			t.is(await countUnread(store.reader), 0);
		}),
		{numRuns: 5},
	);
	t.true((await store.reader('reports')).length >= 20, 'they are about the copy whose return path they came to');
});
