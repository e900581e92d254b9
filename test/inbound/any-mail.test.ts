import test from 'ava';
import fc from 'fast-check';
import {acceptInbound} from '../../src/inbound/accept-inbound.ts';
import {ReadingLoop, recordReading} from '../../src/inbound/reading.ts';
import {readReport} from '../../src/inbound/reports/read-report.ts';
import {precedence} from '../../src/mail/report.ts';
import {createReportWrite} from '../../src/outcome/reports.ts';
import {countUnread} from '../../src/resources/received/inbound-store.ts';
import {classify} from '../helpers/classify.ts';
import {storeTest} from '../helpers/databases.ts';
import {evilMail} from '../helpers/evil-mails.ts';
import {eventWriter} from '../helpers/messages.ts';
import {links, mailed, returnPath} from '../helpers/reports.ts';

const clock = {now: () => Date.now()};

storeTest(test, 'reads and records any message to a return path without stopping the loop', async (t, store) => {
	const mail = await mailed(store);
	const faults: unknown[] = [];
	const recording = {
		...{
			reader: store.reader,
			writer: store.writer,
			links,
			clock,
			write: createReportWrite(eventWriter, {retentionDays: () => 90}),
		},
		...{reporters: [], ownNames: []},
	};
	const reading = new ReadingLoop({
		...{store, node: 'req_a', isAlone: true, clock},
		lane: {precedence: precedence.proven, perTurn: 128, maxRows: 128},
		read: async raw => readReport(raw, classify),
		record: async (cameIn, read, raw) => void (await recordReading(recording, cameIn, read, raw)),
		observer: {
			inboundUnreadable: (_, error) => faults.push(error),
			inboundUnrecorded: (_, error) => faults.push(error),
			storeFailed: error => faults.push(error),
		},
	});
	t.teardown(() => reading.stop());
	const rcptTo = [`${returnPath(mail.to)}@bounces.shop.example`];
	await fc.assert(
		fc.asyncProperty(fc.array(evilMail, {minLength: 30, maxLength: 30}), async mails => {
			await Promise.all(
				mails.map(raw =>
					acceptInbound(
						{writer: store.writer, node: 'req_a', clock},
						{raw, source: 'smtp', mailFrom: '\0', rcptTo},
					),
				),
			);
			reading.wake();
			await reading.idle();
			t.deepEqual(faults.splice(0), []);
			t.is(await countUnread(store.reader), 0);
		}),
		{numRuns: 5},
	);
	t.true((await store.reader('reports')).length >= 20, 'they are about the recipient whose return path they came to');
});
