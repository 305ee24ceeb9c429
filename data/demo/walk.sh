
echo; echo "== 1. Sign a user up, and log the demo's user in."
VIEWER="viewer-$(date +%s)@example.org"
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X PUT "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$VIEWER\",\"accessKey\":\"a long pass phrase\",\"name\":\"Vera Viewer\"}"); echo "$ANSWER"
V="Authorization: Bearer $(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')"; VIEWER_ID=$(echo "$ANSWER" | sed -n 's/.*"userId":"\([^"]*\)".*/\1/p')
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X POST "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$IDENTITY\",\"accessKey\":\"$ACCESS_KEY\"}"); echo "$ANSWER"
U="Authorization: Bearer $(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')"; USER_ID=$(echo "$ANSWER" | sed -n 's/.*"userId":"\([^"]*\)".*/\1/p')
curl -sS -w ' -> %{http_code} (expected 200)\n' "$BASE/api/user/v1/users/$USER_ID" -H "$P" -H "$U"
curl -sS -w ' -> %{http_code} (expected 401)\n' -X POST "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$VIEWER\",\"accessKey\":\"not the pass phrase\"}"

echo; echo "== 2. The catalogue and the schedule: now, an hour ago, a TV day, broadcasts by id, and the deprecated routes of one livestream."
curl -sS -w ' -> %{http_code} (expected 200)\n' "$BASE/api/catalog/v1/livestreams" -H "$P"
curl -sS -w ' -> %{http_code} (expected 200)\n' "$BASE/api/catalog/v1/assets" -H "$P"
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' "$BASE/api/schedule/v1/broadcasts/live?livestreams=open" -H "$P"); echo "$ANSWER"
BROADCAST=$(echo "$ANSWER" | sed -n 's/.*"current":{"id":"\([^"]*\)".*/\1/p')
curl -sS -w ' -> %{http_code} (expected 200)\n' "$BASE/api/schedule/v1/broadcasts/live?livestreams=open,blackout&offset=-3600" -H "$P"
curl -sS -w ' -> %{http_code} (expected 200)\n' --compressed -o /dev/null "$BASE/api/schedule/v1/broadcasts/day/$(date -u +%F)?livestreams=open,blackout,cinema,news" -H "$P"
curl -sS -w ' -> %{http_code} (expected 200)\n' "$BASE/api/schedule/v1/broadcasts?broadcasts=$BROADCAST,$CATCHUP" -H "$P"
curl -sS -w ' -> %{http_code} (expected 200)\n' "$BASE/api/schedule/v1/broadcasts/$BROADCAST" -H "$P"
curl -sS -w ' -> %{http_code} (expected 200)\n' -o /dev/null "$BASE/api/schedule/v1/livestreams/open/day/$(date -u +%F)" -H "$P"
curl -sS -w ' -> %{http_code} (expected 400)\n' "$BASE/api/schedule/v1/livestreams/open/live?offset=1" -H "$P"
curl -sS -w ' -> %{http_code} (expected 200)\n' "$BASE/api/schedule/v1/livestreams/open/live" -H "$P"

echo; echo "== 3. Play an encrypted film: entitlement, preflight, license, playlist, heartbeat, end."
DEVICE=$(mktemp); PLAY=$(mktemp)
printf '%s\n' 'Service-Play-DRM: clearkey' 'Service-Play-Protocol: dash' 'Service-Play-DevicePlatform: web' 'Service-Play-DeviceType: browser' 'Service-Play-DeviceModel: curl' 'Service-Play-DeviceId: demo-device' > "$DEVICE"
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X POST "$BASE/api/entitlement/v2/asset/film-open" -H "$P" -H "$U"); echo "$ANSWER"
ENTITLEMENT=$(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X POST "$BASE/api/playback/v2/preflight/asset/film-open" -H "$P" -H "$U" -H "@$DEVICE" -H "Service-Play-EntitlementId: $ENTITLEMENT"); echo "$ANSWER"
PLAYLIST=$(echo "$ANSWER" | sed -n 's/.*"playlist":"\([^"]*\)".*/\1/p'); LICENSE=$(echo "$ANSWER" | sed -n 's/.*"license":"\([^"]*\)".*/\1/p'); HEARTBEAT=$(echo "$ANSWER" | sed -n 's/.*"heartbeat":"\([^"]*\)".*/\1/p')
(cat "$DEVICE"; echo "Service-Play-EntitlementId: $ENTITLEMENT"; echo "$ANSWER" | sed -n 's/.*"Service-Play-Session":"\([^"]*\)".*/Service-Play-Session: \1/p') > "$PLAY"
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$LICENSE" -H "$P" -H "$U" -H "@$PLAY" -d '{"kids":["WtHA3gAAQACAAAAAAAAAAQ"],"type":"temporary"}'
curl -sS -w ' -> %{http_code} (expected 200)\n' "$PLAYLIST"
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H 'Service-Play-Timestamp: 3' -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'
curl -sS -w ' -> %{http_code} (expected 204)\n' -X DELETE "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY"
curl -sS -w ' -> %{http_code} (expected 410)\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H 'Service-Play-Timestamp: 5' -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'

echo; echo "== 4. A film for adults: the PIN is asked for, and given."
curl -sS -w ' -> %{http_code} (expected 403)\n' -X POST "$BASE/api/entitlement/v2/asset/film-adult" -H "$P" -H "$U"
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$BASE/api/entitlement/v2/asset/film-adult" -H "$P" -H "$U" -d "{\"pinCode\":\"$PIN_CODE\"}"

echo; echo "== 5. A film that must be bought: refused, granted by the operator, allowed, revoked."
curl -sS -w ' -> %{http_code} (expected 403)\n' -X POST "$BASE/api/entitlement/v2/asset/film-premium" -H "$P" -H "$V"
curl -sS -w ' -> %{http_code} (expected 200)\n' -X PUT "$OPS/admin/v1/users/$VIEWER_ID/grants/premium" -H "$O" -d '{}'
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$BASE/api/entitlement/v2/asset/film-premium" -H "$P" -H "$V"
curl -sS -w ' -> %{http_code} (expected 204)\n' -X DELETE "$OPS/admin/v1/users/$VIEWER_ID/grants/premium" -H "$O"

echo; echo "== 6. A broadcast without live rights: refused live, allowed an hour back, 552 when the player returns to live. The livestreams play for ever: any player of DASH or HLS takes the playlist, and its position is the Unix time."
curl -sS -w ' -> %{http_code} (expected 403)\n' -X POST "$BASE/api/entitlement/v2/asset/blackout" -H "$P" -H "$U"
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X POST "$BASE/api/entitlement/v2/asset/blackout?offset=$OFFSET_OPEN" -H "$P" -H "$U"); echo "$ANSWER"
ENTITLEMENT=$(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X POST "$BASE/api/playback/v2/preflight/asset/blackout" -H "$P" -H "$U" -H "@$DEVICE" -H "Service-Play-EntitlementId: $ENTITLEMENT"); echo "$ANSWER"
(cat "$DEVICE"; echo "Service-Play-EntitlementId: $ENTITLEMENT"; echo "$ANSWER" | sed -n 's/.*"Service-Play-Session":"\([^"]*\)".*/Service-Play-Session: \1/p') > "$PLAY"
curl -sS -w ' -> %{http_code} (expected 200)\n' "$(echo "$ANSWER" | sed -n 's/.*"playlist":"\([^"]*\)".*/\1/p')"
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H "Service-Play-Timestamp: $(($(date +%s) + OFFSET_OPEN))" -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'
curl -sS -w ' -> %{http_code} (expected 552)\n' -X POST "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY" -H "Service-Play-Timestamp: $(date +%s)" -H 'Service-Play-Bitrate: 1200000' -H 'Service-Play-ResolutionWidth: 640' -H 'Service-Play-ResolutionHeight: 360'
curl -sS -w ' -> %{http_code} (expected 204)\n' -X DELETE "$HEARTBEAT" -H "$P" -H "$U" -H "@$PLAY"

echo; echo "== 7. Catch-up of a finished broadcast; a film in the clear over HLS."
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$BASE/api/entitlement/v2/asset/$CATCHUP" -H "$P" -H "$U"
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X POST "$BASE/api/entitlement/v2/asset/film-clear" -H "$P" -H "$U"); echo "$ANSWER"
ENTITLEMENT=$(echo "$ANSWER" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
sed -i.old -e 's/DRM: .*/DRM: none/' -e 's/Protocol: .*/Protocol: hls/' "$DEVICE"
ANSWER=$(curl -sS -w ' -> %{http_code} (expected 200)' -X POST "$BASE/api/playback/v2/preflight/asset/film-clear" -H "$P" -H "$U" -H "@$DEVICE" -H "Service-Play-EntitlementId: $ENTITLEMENT"); echo "$ANSWER"
curl -sS -w ' -> %{http_code} (expected 200)\n' "$(echo "$ANSWER" | sed -n 's/.*"playlist":"\([^"]*\)".*/\1/p')"

echo; echo "== 8. Telemetry: accepted once, and known when it comes again."
EVENTS="[{\"timestamp\":$(date +%s),\"source\":\"APP_ACTION\",\"component\":\"player/demo\",\"action\":\"playback_buffering\",\"seqId\":1,\"context\":{\"playback_buffering_type\":\"initial\",\"duration\":400,\"asset_id\":\"film-open\",\"device_id\":\"demo-device\"},\"extra\":{\"player_version\":\"1.0\"}}]"
curl -sS -w ' -> %{http_code} (expected 202)\n' -X POST "$BASE/api/tracker/v1/telemetry-events" -H "$P" -H "$U" -d "$EVENTS"
curl -sS -w ' -> %{http_code} (expected 202)\n' -X POST "$BASE/api/tracker/v1/telemetry-events" -H "$P" -H "$U" -d "$EVENTS"

echo; echo "== 9. Reset a password: the mail lies in the sink; the old token ends with the reset."
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$BASE/api/login/v2/password/send-reset-password" -H "$P" -d "{\"email\":\"$VIEWER\",\"locale\":\"en\"}"
MAIL=$(curl -sS "$OPS/admin/v1/mail" -H "$O" | sed -e 's/},{/}\n{/g' | grep "\"$VIEWER\"" | sed -n '1s/.*"id":"\([^"]*\)".*/\1/p')
RESET=$(curl -sS "$OPS/admin/v1/mail/$MAIL" -H "$O" | sed -n 's/.*token=\([A-Za-z0-9_-]*\).*/\1/p')
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$BASE/api/login/v2/password/reset" -H "$P" -d "{\"token\":\"$RESET\",\"password\":\"another pass phrase\"}"
curl -sS -w ' -> %{http_code} (expected 401)\n' "$BASE/api/user/v1/users/$VIEWER_ID" -H "$P" -H "$V"
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$BASE/api/login/v2/auth/email" -H "$P" -d "{\"identity\":\"$VIEWER\",\"accessKey\":\"another pass phrase\"}"
curl -sS -w ' -> %{http_code} (expected 200)\n' -X POST "$BASE/api/login/v2/auth/logout" -H "$P" -H "$U"
rm -f "$DEVICE" "$DEVICE.old" "$PLAY"
echo; echo "== That was all."
