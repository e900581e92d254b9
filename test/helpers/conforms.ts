import {appendFileSync, mkdirSync, readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import type {ExecutionContext} from 'ava';

/** A sentence of the interface: `mark` is the digest by which scripts/extract-conformance.mjs knows it. */
export type Sentence = {readonly id: string; readonly label: string; readonly mark: string};

/** The project's list of the interface's sentences. */
export function readSentences(): readonly Sentence[] {
	return JSON.parse(readFileSync('test/fixtures/conformance.json', 'utf8')).sentences;
}

const known: ReadonlySet<string> = new Set(readSentences().map(({id}) => id));

/** Where a run of all tests collects the ids (test/run.ts); unset, nothing is collected. */
export const folderVariable = 'TEST_CONFORMANCE';

/**
 * Says which sentences the test shows to hold: they count when it has passed. Throws for an id that is not in the list.
 */
export function conforms(t: Pick<ExecutionContext, 'teardown' | 'passed'>, ...ids: readonly string[]): void {
	const unknown = ids.filter(id => !known.has(id));
	if (unknown.length > 0) {
		throw new Error(`Not in test/fixtures/conformance.json: ${unknown.join(', ')}`);
	}

	const folder = process.env[folderVariable];
	t.teardown(() => {
		if (t.passed && folder !== undefined) {
			mkdirSync(folder, {recursive: true});
			appendFileSync(join(folder, String(process.pid)), ids.map(id => `${id}\n`).join(''));
		}
	});
}

/** The sentences that no passed test has shown to hold, after a run that collected into the folder. */
export function notShown(folder: string): readonly Sentence[] {
	mkdirSync(folder, {recursive: true});
	const shown = new Set(readdirSync(folder).flatMap(file => readFileSync(join(folder, file), 'utf8').split('\n')));
	return readSentences().filter(({id}) => !shown.has(id));
}
