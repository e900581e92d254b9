import test from 'ava';
import {newQueue} from '../../src/queue/destination-queue.ts';
import {createFindRoutes} from '../../src/queue/find-routes.ts';
import {routeTo} from '../helpers/routes.ts';

test('a way that was looked up before ways changed is looked up again', async t => {
	const queue = newQueue({destination: 'a.test', workspaceId: 'ws'});
	const toFind = [queue];
	const answers = [routeTo('former'), routeTo('relay')];
	const found: string[] = [];
	await new Promise<void>((resolve, reject) => {
		const findRoutes = createFindRoutes({
			routeOf: async () => answers.shift() ?? routeTo('none'),
			next: () => toFind.shift(),
			onFound(_, route) {
				found.push(route.site);
				resolve();
			},
			onFailed: again => void toFind.push(again),
			onError: reject,
		});
		findRoutes.fill();
		findRoutes.renew();
	});
	t.deepEqual(found, ['relay']);
});
