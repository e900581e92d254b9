import {readSettingFile} from '../kit/regular-file.ts';
import type {Settings} from './settings.ts';

/** The certificate authorities of MAILCTL_CA_FILE (PEM), trusted in addition to the public ones; null: none. */
export function extraCa({caFile}: Pick<Settings, 'caFile'>): string | null {
	return caFile === null ? null : readSettingFile(caFile).toString();
}

/** The authorities for certificates of webhook endpoints, in addition to the public ones (PEM). */
export function webhookCa(settings: Pick<Settings, 'caFile' | 'webhookCaFile'>): string[] {
	return [settings.caFile, settings.webhookCaFile].flatMap(file =>
		file === null ? [] : readSettingFile(file).toString(),
	);
}
