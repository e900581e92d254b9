import test from 'ava';
import {readLine} from '../../src/log/lines.ts';
import {createLog} from '../../src/log/log.ts';

for (const format of ['json', 'pretty'] as const) {
	test(`the newest lines are remembered, as JSON, whatever the format: ${format}`, t => {
		const {logger, recent} = createLog({level: 'info', format, colour: false, destination: {write: () => true}});
		logger.warn({event: 'early'});
		for (let n = 0; n < 450; n++) {
			logger.info({event: 'sent', n});
		}
		logger.debug({event: 'unsaid'});
		const all = recent.all().map(line => JSON.parse(line).n);
		t.deepEqual(
			all,
			Array.from({length: 100}, (_, index) => index + 350),
		);
		t.deepEqual(
			recent.warnings().map(line => readLine(line).event),
			['early'],
		);
	});
}

test('of a long line the beginning is remembered', t => {
	const {logger, recent} = createLog({level: 'info', format: 'json', colour: false, destination: {write: () => true}});
	logger.error({event: 'x', text: 'y'.repeat(1e6)});
	t.is(recent.warnings()[0]?.length, 4096);
	t.is(readLine(recent.all()[0] as string).time, '', 'it is no JSON any more, and still shown');
});
