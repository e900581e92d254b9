import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import test from 'ava';
import {readReport} from '../../../src/inbound/reports/read-report.ts';
import type {Clues, Reading, Report} from '../../../src/mail/report.ts';
import {readCollection} from '../../bounces/expected.ts';
import {figuresOf, scoreFile, shortcomings} from '../../bounces/figures.ts';
import {classify} from '../../helpers/classify.ts';

const folder = 'test/fixtures/bounces';
const {files, mails} = readCollection(folder);
const readings = new Map(
	files.map(({file}) => [file, readReport(readFileSync(path.join(mails, file)), classify)] as const),
);

test('reads bounces as accurately as requirement R2.4 demands', t => {
	t.true(files.length >= 200);
	const scored = files.map(expected => scoreFile(expected, readings.get(expected.file) as Reading));
	t.deepEqual(shortcomings(figuresOf(scored)), []);
});

test('reads every message of the collection as recorded', t => {
	const golden = path.join(folder, 'readings.txt');
	const text = [...readings].map(([file, reading]) => textOf(file, reading)).join('');
	if (process.env.UPDATE_GOLDEN) {
		writeFileSync(golden, text);
	}
	t.is(text, readFileSync(golden, 'utf8'), `Run again with UPDATE_GOLDEN=1 and review the change of ${golden}.`);
});

function textOf(file: string, {kind, reports, clues, fault}: Reading): string {
	return [
		`${file}: ${kind}${fault === null ? '' : ` (${fault})`}`,
		...reports.map(report => `\t${reportText(report)}`),
		...clueTexts(clues).map(text => `\t${text}`),
		'',
	].join('\n');
}

function reportText({recipient, originalRecipient, action, ...report}: Report): string {
	const {status, code, host, type, category, suppresses, rule, feedbackType} = report;
	const address = originalRecipient === null ? recipient : `${recipient} (sent to ${originalRecipient})`;
	const facts = [type, category, status, code, host, rule, feedbackType].filter(fact => fact !== null);
	return `${address} ${action}: ${facts.join(', ')}${suppresses ? ', suppresses' : ''}`;
}

/** The ids of the message that a report is about: without any of them, no state changes. */
function clueTexts({envelopeIds, refs, messageIds, returnPaths, unsubscribeAddresses}: Clues): string[] {
	return Object.entries({envelopeIds, refs, messageIds, returnPaths, unsubscribeAddresses})
		.filter(([, values]) => values.length > 0)
		.map(([name, values]) => `${name} ${values.join(', ')}`);
}
