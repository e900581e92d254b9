import type {Detector} from './finding.ts';
import {readListed} from './listed.ts';

const ims = /^.{0,40}did not reach the following recipient(?:\(s\)|s)?[^\n]{0,20}$/im;
// The heading under which Exchange repeats all for administrators, and the line that names the server, in the languages it speaks.
const diagnosis =
	/^[^\n]{0,20}(?:Diagnostic information for administrators|Diagnoseinformationen für Administratoren|Informations de diagnostic pour les administrateurs|Información de diagnóstico para administradores|Informazioni di diagnostica per gli amministratori|Informações de diagnóstico para administradores|Diagnostisk information för administratörer|Diagnostische informatie voor beheerders|Diagnostiske oplysninger til administratorer|Informacje diagnostyczne dla administratorów|管理者向けの診断情報|供管理员使用的诊断信息)[^\n]{0,20}$/imu;
const server =
	/^[^\n]{0,20}(?:Generating server|Generierender Server|Serveur de g[ée]n[ée]ration|Servidor de generaci[óo]n|Server di generazione|Genererande server|Servidor de origem|Bronserver|サーバーの生成|生成服务器)[ \t]*[:：][^\n]{0,300}$/imu;
const friendly =
	/^[^\n]{0,20}(?:Delivery has failed to these recipients|Your message (?:wasn't|wasn’t|couldn't be|couldn’t be) delivered to|Fehler bei der Nachrichtenzustellung an folgende|[ÉE]chec de la remise (?:pour|aux)|Error de entrega a estos destinatarios|No se pudo entregar (?:a|el)|Delivery is delayed to these recipients|Your message to|次の受信者または配布リストへの配信に失敗)[^\n]{0,120}$/imu;

/** Exchange: the Internet Mail Service's `did not reach the following recipient(s)`, and the reports of Exchange 2007 and later. */
export const readExchange: Detector = ({said, senders}) => {
	const listed = readListed(said, {after: ims});
	if (listed.length > 0) {
		return listed;
	}
	const after = server.test(said) ? server : diagnosis;
	if (diagnosis.test(said) || server.test(said)) {
		const found = readListed(said, {after});
		return found.length > 0 ? found : readListed(said, {after: friendly, until: diagnosis, except: senders});
	}
	return /Exchange|Outlook|Microsoft/i.test(said) ? readListed(said, {after: friendly, except: senders}) : [];
};
