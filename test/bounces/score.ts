import {existsSync} from 'node:fs';
import path from 'node:path';
import {readCollection} from './expected.ts';
import {explainFolder} from './explain.ts';
import {
	figuresOf,
	percentText,
	type ReadReport,
	type ScoredFile,
	scoreFile,
	shortcomings,
	verdictOf,
} from './figures.ts';

/**
 * Reads a folder of mails that came back with `mailctl bounce explain` and says how well:
 * `node dist/test/bounces/score.js FOLDER [PART-OF-FILE-NAMES]`. The folder holds `expected.json` and the mails, in
 * `mail/` or beside it. Ends with 1 below the bars, with 64 without a folder.
 */
const [folder, part = ''] = process.argv.slice(2);
if (folder === undefined) {
	console.error('usage: node dist/test/bounces/score.js FOLDER [PART-OF-FILE-NAMES]');
	process.exit(64);
}
if (!existsSync(path.join(folder, 'expected.json'))) {
	console.error(`score: ${folder} holds no expected.json, name a folder that does`);
	process.exit(64);
}

const {files, mails} = readCollection(folder);
const read = explainFolder(mails);
const scored = files
	.filter(({file}) => file.includes(part))
	.map(expected => scoreFile(expected, read.get(expected.file) ?? {kind: 'other', reports: []}));
for (const file of scored.filter(file => !file.right)) {
	printWrong(file);
}

const figures = figuresOf(scored);
console.log(`files right          ${percentText(figures.files)}`);
console.log(`recipient found      ${percentText(figures.recipientFound)}`);
console.log(`false suppression    ${percentText(figures.falseSuppression)}`);
console.log(`missed hard          ${percentText(figures.missedHard)}`);
console.log(`suppressions of none ${percentText(figures.fromNone)}`);
console.log(`complaints           ${percentText(figures.complaints)}`);
console.log(`unsubscribes         ${percentText(figures.unsubscribes)}`);
const short = shortcomings(figures);
console.log(short.length === 0 ? 'the bars are met' : short.map(text => `below the bar: ${text}`).join('\n'));
process.exitCode = short.length === 0 ? 0 : 1;

function printWrong({file, kind, rows, others}: ScoredFile): void {
	console.log(`${file} (read as ${kind})`);
	for (const {row, report} of rows.filter(row => !row.right)) {
		console.log(`  expected ${row.recipient ?? '(nobody named)'}: ${row.accept.join(' or ')}`);
		console.log(`  read     ${report ? textOf(report) : 'nothing of it'}`);
	}
	for (const other of others) {
		console.log(`  besides  ${textOf(other)}`);
	}
	console.log('');
}

function textOf(report: ReadReport): string {
	const {recipient, category, status, code, rule, reason} = report;
	const why = [category, status, code, rule].filter(part => part !== null).join(', ');
	return `${recipient}: ${verdictOf(report)} (${why}) ${reason.slice(0, 120)}`;
}
