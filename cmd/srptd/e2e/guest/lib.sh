# The library of every job: . /job/lib/lib.sh
for part in report net cards pair initiator srptd lio store io; do
	. /job/lib/$part.sh
done
