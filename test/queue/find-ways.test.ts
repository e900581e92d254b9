import test from 'ava';
import {createFindWays} from '../../src/queue/find-ways.ts';
import {newLane} from '../../src/queue/lane.ts';
import {wayTo} from '../helpers/ways.ts';

test('a way that was looked up before ways changed is looked up again', async t => {
	const lane = newLane({destination: 'a.test', workspaceId: 'ws'});
	const toFind = [lane];
	const answers = [wayTo('former'), wayTo('relay')];
	const found: string[] = [];
	await new Promise<void>((resolve, reject) => {
		const findWays = createFindWays({
			wayOf: async () => answers.shift() ?? wayTo('none'),
			next: () => toFind.shift(),
			onFound(_, way) {
				found.push(way.site);
				resolve();
			},
			onFailed: again => void toFind.push(again),
			onError: reject,
		});
		findWays.fill();
		findWays.renew();
	});
	t.deepEqual(found, ['relay']);
});
