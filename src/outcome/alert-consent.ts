import type {Knex} from 'knex';
import {storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import {confirmAddress} from '../resources/alerts/addresses-store.ts';
import {recordAct} from '../resources/audit/store.ts';
import {findWorkspace} from '../resources/workspaces/store.ts';

/** Records that an address's holder agreed to a workspace's alerts. Returns `false` if the workspace was deleted. */
export async function agreeToAlerts(
	trx: Knex.Transaction,
	acting: Acting,
	{workspaceId, address}: {readonly workspaceId: string; readonly address: string},
): Promise<boolean> {
	if (!(await findWorkspace(trx, workspaceId))) {
		return false;
	}
	if (await confirmAddress(trx, [workspaceId, address], storeTime(acting.clock.now()))) {
		await recordAct(trx, acting, {action: 'alert.confirmed', workspaceId, target: null, recipient: address});
	}
	return true;
}
