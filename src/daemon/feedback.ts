import type {Settings} from '../config/settings.ts';
import type {MakeOptions} from '../threads/make.ts';

/** How mail says where complaints and opt-outs may come back, as the settings say. */
export function feedbackOf(
	settings: Pick<Settings, 'inboundListen' | 'bounceMailbox' | 'senderId' | 'cfbl' | 'feedbackAddress'>,
): Pick<MakeOptions, 'listening' | 'senderId' | 'cfbl'> {
	const {inboundListen, bounceMailbox, senderId, cfbl, feedbackAddress} = settings;
	return {
		listening: inboundListen !== null || bounceMailbox !== null,
		senderId,
		cfbl: cfbl ? {own: feedbackAddress, listening: inboundListen !== null} : null,
	};
}
