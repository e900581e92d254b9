import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import {conforms, folderVariable, notShown, readSentences} from './conforms.ts';
import {temporaryFolder} from './databases.ts';

/** A test that ends when it is told to. */
function fakeTest(): {t: Pick<ExecutionContext, 'teardown' | 'passed'>; end: (passed: boolean) => void} {
	const teardowns: Array<() => unknown> = [];
	const t = {passed: false, teardown: (run: () => unknown) => void teardowns.push(run)};
	return {
		t,
		end(passed) {
			t.passed = passed;
			for (const run of teardowns) {
				run();
			}
		},
	};
}

test.serial('only the ids of passed tests count', async t => {
	const folder = await temporaryFolder(t);
	const [first, second, third] = readSentences().map(({id}) => id) as [string, string, string];
	const before = process.env[folderVariable];
	process.env[folderVariable] = folder;
	const passing = fakeTest();
	conforms(passing.t, first, second);
	const failing = fakeTest();
	conforms(failing.t, third);
	process.env[folderVariable] = before ?? '';
	if (before === undefined) {
		delete process.env[folderVariable];
	}

	t.is(notShown(folder).length, readSentences().length);
	passing.end(true);
	failing.end(false);
	t.deepEqual(
		notShown(folder).map(({id}) => id),
		readSentences()
			.map(({id}) => id)
			.slice(2),
	);
});

test('an id that is not in the list fails at once', t => {
	t.throws(() => conforms(t, 'message.id', 'message.idd'), {
		message: 'Not in test/fixtures/conformance.json: message.idd',
	});
});

test('the list: ids and marks are well formed, no id twice, labels are short', t => {
	const sentences = readSentences();
	t.true(sentences.length > 200);
	t.is(new Set(sentences.map(({id}) => id)).size, sentences.length);
	for (const {id, label, mark} of sentences) {
		t.regex(id, /^[a-z][\w-]*(\.[\w-]+)+$/);
		t.regex(mark, /^[\da-f]{10}$/, id);
		t.true(label.length > 2 && label.length <= 90, id);
	}
});
