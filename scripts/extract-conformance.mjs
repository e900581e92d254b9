#!/usr/bin/env node
import {createHash} from 'node:crypto';
import {readFileSync} from 'node:fs';
import process from 'node:process';

// Compares the interface document with the project's list of its sentences. Run it by hand when the document has changed:
//   node scripts/extract-conformance.mjs DOCUMENT
// A sentence is a table row, or a sentence of a rule, bullet or paragraph. The list has a mark (digest) of each with an id
// and a label, or the reason why it requires nothing of the service. It is edited by hand. Prints sentences that are missing
// from the list, with a proposed id, and those no longer in the document. Exits with 1 if there is anything to do.

const listFile = new URL('../test/fixtures/conformance.json', import.meta.url);
const maxTitleLength = 30;
const leftOpen = /not shown/;
const sentenceEnd = /(?<=\.\)?)\s+(?=[A-Z`])/;

/** Returns every sentence in order, with its line, text, mark and a proposed id. */
function sentencesOf(markdown) {
	const found = [];
	let section = '';
	let tableRow = 0;
	for (const [index, line] of markdown.split('\n').entries()) {
		const heading = /^#+ (.*)$/.exec(line);
		section = heading?.[1] ?? section;
		tableRow = line.startsWith('|') ? tableRow + 1 : 0;
		if (heading || tableRow === 1 || tableRow === 2) {
			continue; // The first two rows of a table are its head and a separator.
		}

		for (const {key, text} of tableRow > 0 ? [rowOf(line)] : statementsOf(line)) {
			const mark = createHash('sha256').update(`${section}\n${text}`).digest('hex').slice(0, 10);
			found.push({line: index + 1, text, mark, proposal: `${slug(section)}.${slug(key)}`});
		}
	}

	return found;
}

function rowOf(line) {
	const cells = line.split('|').slice(1, -1);
	return {key: cells[0], text: cells.map(cell => cell.trim()).join(' | ')};
}

/** Returns the sentences of a line, without those that the document leaves open. */
function statementsOf(line) {
	const [, rule, rest] = /^\s*(?:-|(\d+)\.)?\s*(.*)$/.exec(line);
	return rest
		.split(sentenceEnd)
		.map(text =>
			text
				.split('; ')
				.filter(clause => !leftOpen.test(clause))
				.join('; '),
		)
		.filter(text => text.length > maxTitleLength || !text.endsWith(':'))
		.filter(text => text !== '')
		.map(text => ({key: rule ? `rule-${rule}` : text.slice(0, 30), text}));
}

function slug(text) {
	return text
		.toLowerCase()
		.replaceAll(/[^a-z0-9_]+/g, '-')
		.replaceAll(/^-+|-+$/g, '');
}

const [document] = process.argv.slice(2);
if (document === undefined) {
	console.error('usage: node scripts/extract-conformance.mjs DOCUMENT');
	process.exit(64);
}

const sentences = sentencesOf(readFileSync(document, 'utf8'));
const {sentences: listed, outside} = JSON.parse(readFileSync(listFile, 'utf8'));
const known = new Set([...listed, ...outside].map(({mark}) => mark));
const there = new Set(sentences.map(({mark}) => mark));
const added = sentences.filter(({mark}) => !known.has(mark));
const gone = [...listed, ...outside].filter(({mark}) => !there.has(mark));
for (const {line, text, mark, proposal} of added) {
	console.log(`new   line ${line}: ${text}\n      ${JSON.stringify({id: proposal, label: '', mark})}`);
}

for (const {id, why, mark} of gone) {
	console.log(`gone  ${mark} ${id ?? `(outside: ${why})`}`);
}

console.log(`${sentences.length} sentences, ${listed.length} ids, ${added.length} new, ${gone.length} gone`);
process.exitCode = added.length + gone.length > 0 ? 1 : 0;
